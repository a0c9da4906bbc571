"""DFlash2's two parts: the convolution against its definition, the selector's walk by hand."""

import torch

from dflash_bench.engine.methods.dflash_model import mixed
from dflash_bench.engine.methods.dflash_second import (
    CandidateSelector,
    GroupedConvolution,
    convolve,
)
from dflash_bench.engine.methods.dflash_shape import SecondShape

SHAPE = SecondShape(conv_kernel_size=3, conv_group_size=4, selector_rank=2, selector_top_k=2)


def test_the_convolution_is_as_defined() -> None:
    torch.manual_seed(0)
    rows, width, hidden, taps, size = 2, 5, 8, 3, 4
    x, base = torch.randn(rows, width, hidden), torch.randn(taps, hidden)
    dynamic = torch.randn(rows, width, taps, hidden // size)
    found = convolve(x, base, dynamic)
    for row in range(rows):
        for i in range(width):
            for c in range(hidden):
                expected = sum(
                    (base[t, c] + dynamic[row, i, t, c // size]) * x[row, i - t, c]
                    for t in range(taps)
                    if i - t >= 0  # before the block there is nothing
                )
                torch.testing.assert_close(found[row, i, c], torch.as_tensor(expected))


def test_a_sublayer_is_convolved_on_its_way_in_and_out_by_kernels_of_what_entered() -> None:
    torch.manual_seed(0)
    around = GroupedConvolution(8, SHAPE).requires_grad_(False)
    torch.nn.init.normal_(around.base_kernel)
    torch.nn.init.normal_(around.kernel_projection.weight)
    x = torch.randn(2, 5, 8)
    # The projection's output: way (in, out), then tap, then group.
    asked = around.kernel_projection(x).view(2, 5, 2, 3, 2)
    entered = convolve(x, around.base_kernel[0], asked[:, :, 0])
    expected = convolve(entered.square(), around.base_kernel[1], asked[:, :, 1])
    torch.testing.assert_close(mixed(torch.square, x, around), expected)


def test_an_untrained_convolution_changes_nothing() -> None:
    around = GroupedConvolution(8, SHAPE)
    torch.nn.init.zeros_(around.kernel_projection.weight)
    x = torch.randn(1, 4, 8)
    torch.testing.assert_close(mixed(lambda y: 2 * y, x, around), 2 * x)


def test_the_walk_by_hand() -> None:
    """Three tokens, two candidates a slot; what follows what is said by codebooks of rank 2."""
    selector = CandidateSelector(2, 3, SHAPE).requires_grad_(False)
    selector.hidden_projection.weight.copy_(torch.eye(2))
    selector.predecessor_codebook.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    selector.successor_codebook.copy_(torch.tensor([[0.0, 5.0], [3.0, 0.0], [0.0, 0.0]]))
    hidden = torch.ones(1, 3, 2)
    logits = torch.tensor([[[1.0, 0.0, 2.0], [1.0, 0.0, 2.0], [4.0, 9.0, 0.0]]])
    # After 0: A = (1, 0). Slot 1, candidates 2 (2 + 0) and 0 (1 + 0): 2.
    # After 2: A = (1, 1). Slot 2, candidates 2 (2 + 0) and 0 (1 + 5): 0, which no logit alone says.
    # After 0: A = (1, 0). Slot 3, candidates 1 (9 + 3) and 0 (4 + 0): 1.
    assert selector.walk(hidden, logits, torch.tensor([0])).tolist() == [[2, 0, 1]]
    # After 1: A = (0, 1). Slot 1, candidates 2 (2 + 0) and 0 (1 + 5): 0. Then as after 0: 2, and after 2: 1.
    assert selector.walk(hidden, logits, torch.tensor([1])).tolist() == [[0, 2, 1]]
    # What a slot's hidden state does not ask for does not count.
    assert selector.walk(0 * hidden, logits, torch.tensor([1])).tolist() == [[2, 2, 1]]


def test_no_more_candidates_than_tokens() -> None:
    selector = CandidateSelector(2, 3, SecondShape(2, 1, 2, 16))
    assert selector.walk(torch.zeros(1, 1, 2), torch.zeros(1, 1, 3), torch.tensor([0])).shape == (
        1,
        1,
    )
