"""How well does a simple classifier do on frozen features?"""
