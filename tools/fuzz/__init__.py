"""Feeds every reader of outside files with damaged and hostile ones, in child processes with limits."""
