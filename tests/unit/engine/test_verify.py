"""Acceptance: the leading run of drafts that the target would have chosen."""

import torch

from dflash_bench.engine.verify import Draft, accept


def test_only_the_leading_run_of_equal_tokens_is_accepted() -> None:
    chosen = torch.tensor([[5, 6, 7, 8]])
    drafts = {0: [9, 6, 7], 1: [5, 9, 7], 2: [5, 6, 9], 3: [5, 6, 7]}
    for accepted, tokens in drafts.items():
        assert accept(Draft(torch.tensor([tokens])), chosen).tolist() == [accepted]


def test_rows_accept_independently() -> None:
    chosen = torch.tensor([[1, 2, 3], [1, 2, 3], [1, 2, 3]])
    draft = Draft(torch.tensor([[1, 2], [1, 9], [9, 2]]))
    assert accept(draft, chosen).tolist() == [2, 1, 0]


def test_padding_of_shorter_drafts_is_never_accepted() -> None:
    chosen = torch.tensor([[1, 2, 3], [1, 2, 3], [1, 2, 3]])
    draft = Draft(torch.tensor([[1, 2]] * 3), counts=torch.tensor([0, 1, 2]))
    assert accept(draft, chosen).tolist() == [0, 1, 2]


def test_an_empty_draft_accepts_nothing() -> None:
    assert accept(Draft(torch.empty(2, 0, dtype=torch.int64)), torch.ones(2, 1)).tolist() == [0, 0]
