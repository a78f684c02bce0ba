"""Single-threaded workers that leave the caller's settings alone."""

import time

import pytest
import torch

from unseen.probes.rows import Workers


def test_workers_are_single_threaded_and_the_setting_is_left_alone():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with Workers() as workers:
            assert workers.count == 2
            inside = [workers.submit(lambda: (time.sleep(0.02), torch.get_num_threads())[1]) for _ in range(4)]
            assert [future.result() for future in inside] == [1, 1, 1, 1]
            assert workers.run(torch.get_num_threads) == 1
        assert torch.get_num_threads() == 2
        with Workers(1) as outer:  # a thread that starts later still sees the caller's setting
            assert outer.count == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_results_are_ordered_and_errors_are_raised(workers):
    def work(item):
        time.sleep(0.002 * (5 - item % 5))
        return item * item

    assert list(workers.ordered(work, range(30))) == [i * i for i in range(30)]

    def broken(item):
        raise KeyError(item)

    with pytest.raises(KeyError):
        list(workers.ordered(broken, range(3)))


def test_few_results_are_held_at_a_time(workers):
    started = []

    def work(item):
        started.append(item)
        return item

    results = workers.ordered(work, range(1000))
    next(results)
    time.sleep(0.05)
    assert len(started) <= 2 * workers.count + 2
