"""mlx-lm's speculative loop with a smaller model.

It yields a pass's tokens one by one, each with a mark if it was a draft: a pass ends at the first one without. After
EOS the rest of that pass is pulled too: it has been computed already, and says what the cut drops. The first pass
judges drafts on the prompt's last token already: prefill and step in one.
"""

from typing import Any

from .mlx_plain import Passes, Plain


class Drafted(Plain):
    """mlx-lm's `speculative_generate_step` with a smaller model."""

    first_pass = "both"

    def prepare(self) -> None:
        """Load the draft model."""
        self.draft, _ = self.loaded(self.settings["draft"])
        self.block_size = self.settings["block_size"] or 3  # mlx-lm's own default: 2 drafts
        self.drafts = self.block_size - 1

    def passes(self, prompt: Any, request: dict[str, Any]) -> Passes:
        """Group tokens by pass; cut a pass at EOS only when all of it is known."""
        limit = request["max_new_tokens"]
        ends = set(self.settings["stop_ids"])
        stream = self.lm.speculative_generate_step(
            prompt,
            self.model,
            self.draft,
            num_draft_tokens=self.drafts,
            max_tokens=limit,
            sampler=self.sampler(request),
            **self.options,
        )
        done = 0
        with self.lm.wired_limit(self.model, [self.lm.generation_stream]):
            while done < limit:
                drafted = min(limit - done, self.drafts)
                whole, bonus = [], False
                for token, _, from_draft in stream:
                    whole.append(int(token))
                    bonus = not from_draft
                    if bonus or done + len(whole) == limit:
                        break
                end = next((at for at, token in enumerate(whole, 1) if token in ends), None)
                yield whole[:end], drafted, len(whole) - bonus
                done += len(whole)
                if end is not None:
                    break
        stream.close()
