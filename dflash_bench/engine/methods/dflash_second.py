"""What DFlash2 adds to the network: convolutions around each sublayer, and a selector of candidates.

A block's slots are filled in parallel, each not knowing what the others will say. Two small parts
bring neighbours together (described with the released checkpoints; semantics and tensor names as in
PyPI's dflash 0.1.0):

A *grouped dynamic depthwise convolution* mixes each token with those before it in the block, before
and after every attention and every MLP:

    out[i, c] = sum_t (base[t, c] + dynamic[i, t, group of c]) * x[i - t, c]        zero before the block

    dynamic = kernel_projection(x) of the tokens that enter: once for the way in and the way out

A *candidate selector* walks the block from the anchor, and gives each of a slot's k likeliest tokens b,
after the token a that it has just chosen, the score

    logit(b) + <A[a] * (W h), B[b]>         A, B: codebooks [V, rank]; h: the slot's hidden state

Shapes: B rows, Q block tokens, H hidden, G groups, T taps of a convolution.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dflash_bench.engine.methods.dflash_shape import SecondShape


class GroupedConvolution(nn.Module):
    """The two convolutions around one sublayer."""

    def __init__(self, hidden: int, shape: SecondShape) -> None:
        super().__init__()
        self.taps, self.groups = shape.conv_kernel_size, hidden // shape.conv_group_size
        # At the start each token is kept as it is: tap 0 is one, all else is zero.
        base = torch.zeros(2, self.taps, hidden)
        base[:, 0] = 1.0
        self.base_kernel = nn.Parameter(base)
        self.kernel_projection = nn.Linear(hidden, 2 * self.taps * self.groups, bias=False)

    def kernels(self, x: Tensor) -> Tensor:
        """Return what x [B, Q, H] asks for: dynamic kernels [2, B, Q, T, G], way in and way out."""
        dynamic: Tensor = self.kernel_projection(x)
        dynamic = dynamic.view(*x.shape[:-1], 2, self.taps, self.groups)
        return dynamic.movedim(2, 0)

    def way_in(self, x: Tensor, kernels: Tensor) -> Tensor:
        """Mix what enters the sublayer, x [B, Q, H]."""
        return convolve(x, self.base_kernel[0], kernels[0])

    def way_out(self, x: Tensor, kernels: Tensor) -> Tensor:
        """Mix what leaves the sublayer, x [B, Q, H]."""
        return convolve(x, self.base_kernel[1], kernels[1])


def convolve(x: Tensor, base: Tensor, dynamic: Tensor) -> Tensor:
    """Convolve x [B, Q, H] causally with kernels base [T, H] plus dynamic [B, Q, T, G]."""
    taps, groups = base.shape[0], dynamic.shape[-1]
    past = F.pad(x, (0, 0, taps - 1, 0)).unfold(1, taps, 1).flip(-1)  # [B, Q, H, T], tap t: t back
    kernel = base.view(taps, groups, -1) + dynamic[..., None]  # [B, Q, T, G, H/G]
    return (kernel.flatten(3).transpose(2, 3) * past).sum(-1)


class CandidateSelector(nn.Module):
    """Chooses one candidate of each slot, from left to right."""

    def __init__(self, hidden: int, vocab: int, shape: SecondShape) -> None:
        super().__init__()
        rank, self.top_k = shape.selector_rank, min(shape.selector_top_k, vocab)
        self.predecessor_codebook = nn.Parameter(torch.zeros(vocab, rank))
        self.successor_codebook = nn.Parameter(torch.zeros(vocab, rank))
        self.hidden_projection = nn.Linear(hidden, rank, bias=False)

    def walk(self, hidden: Tensor, logits: Tensor, anchors: Tensor) -> Tensor:
        """Return the tokens [B, N] of slots with hidden [B, N, H] and logits [B, N, V], after anchors [B].

        What is chosen depends on what was chosen before: jointly no law that could be told, so that
        the draft is a point mass.
        """
        scores, candidates = logits.topk(self.top_k, dim=-1)  # [B, N, k]
        projected = self.hidden_projection(hidden)  # [B, N, rank]
        successors = self.successor_codebook[candidates] * projected[:, :, None]
        token, chosen = anchors, []
        for slot in range(logits.shape[1]):
            after = self.predecessor_codebook[token]  # [B, rank]
            edges = (successors[:, slot] @ after[..., None])[..., 0]  # [B, k]
            best = (scores[:, slot] + edges).argmax(-1, keepdim=True)
            token = candidates[:, slot].gather(1, best)[:, 0]
            chosen.append(token)
        return torch.stack(chosen, 1)
