# SPDX-License-Identifier: Apache-2.0
"""`outrider eval precisions`: what fewer bits of draft and target cost of the drafts that are accepted.

Each model is loaded once: targets write texts, and drafts give every token of them its rank. From the ranks
it follows what a chunk of drafts would yield, without running the pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from outrider.core.errors import ConfigError
from outrider.core.files.terminal import tracked
from outrider.core.model_options import Precision
from outrider.core.values import Prompt
from outrider.decoding.config import DecodingConfig
from outrider.evaluation.alternatives.colocated import CloudCosts, csd_run, draft_ranks
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.tables import print_results, results_table
from outrider.evaluation.weights.figures import target_texts
from outrider.evaluation.weights.published_pair import load_draft, load_target
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.datasets.own_answers import TOGETHER
from outrider.runtime.datasets.published_weights import Size
from outrider.runtime.datasets.real_prompts import real_prompts

PRECISIONS: tuple[Precision, ...] = ("bf16", "int8", "int4")
NUM_DRAFT_TOKENS = 4
_ROUNDS = CloudCosts(step_s=1.0, verify_s=1.0, verify_token_s=0.0, draft_token_s=0.0, draft_branch_s=0.0)
"""Under which a text takes as long as it has verifications."""

Texts = list[list[int]]


@dataclass(frozen=True)
class PrecisionRow:
    """A pair: its drafted tokens that are accepted in a verification, and those over both at bf16."""

    target: str
    draft: str
    verifications: int
    accepted_per_verification: float
    relative: float


@dataclass(frozen=True)
class Asked:
    """What every model is asked; where `folder` is given, what it gave is kept there."""

    prompts: Sequence[Prompt]
    tokens: int
    target: Size
    folder: Path | None
    temperature: float = 0.0

    @property
    def config(self) -> DecodingConfig:
        """How texts are drawn."""
        return DecodingConfig("outrider", NUM_DRAFT_TOKENS, temperature=self.temperature)

    def texts(self, precision: Precision) -> Texts:
        """What the target writes."""
        return self._kept(f"texts-{precision}-{self._name}", lambda: self._write(precision))

    def ranks(self, precision: Precision, texts: dict[Precision, Texts]) -> dict[Precision, Texts]:
        """The rank that the draft gives each token of the targets' texts."""
        found = self._kept(
            f"ranks-{precision}-{self._name}",
            lambda: self._judge(precision, [one for some in texts.values() for one in some]),
        )
        size = len(self.prompts)
        return {kind: found[index * size : (index + 1) * size] for index, kind in enumerate(texts)}

    @property
    def _name(self) -> str:
        return f"{self.target}-{len(self.prompts)}-{self.tokens}-{self.temperature:g}"

    def _write(self, precision: Precision) -> Texts:
        model = load_target(self.target, precision, sessions=TOGETHER)
        return target_texts(model, self.prompts, self.config, self.tokens)

    def _judge(self, precision: Precision, texts: Texts) -> Texts:
        draft, config = load_draft(precision), self.config
        prompts = list(self.prompts) * (len(texts) // len(self.prompts))
        pairs = tracked(list(zip(prompts, texts, strict=True)), f"ranks of the draft in {precision}")
        return [list(draft_ranks(draft, prompt, ids, config.sampling_for(prompt))) for prompt, ids in pairs]

    def _kept(self, name: str, make: Callable[[], Texts]) -> Texts:
        path = None if self.folder is None else self.folder / f"{name}.json"
        if path is None or not path.exists():
            made = make()
            write_figures(path, {"texts": made})
            return made
        try:
            return msgspec.json.decode(path.read_bytes(), type=dict[str, Texts])["texts"]
        except (OSError, msgspec.DecodeError, KeyError) as error:
            raise ConfigError(f"{path} holds no texts ({error}): delete it") from None


def evaluate_precisions(
    prompts: int,
    tokens: int,
    target: Size = "1.5b",
    temperature: float = 0.0,
    run: Path | None = None,
    json_file: Path | None = None,
) -> dict[str, Any]:
    """Measure, print a table, write JSON. Raises ModelError without weights, and ConfigError."""
    asked = Asked(real_prompts(prompts), tokens, target, run, temperature)
    texts = {precision: asked.texts(precision) for precision in PRECISIONS}
    ranks = {precision: asked.ranks(precision, texts) for precision in PRECISIONS}
    counts = {
        (of_target, of_draft): _count(ranks[of_draft][of_target])
        for of_target, of_draft in product(PRECISIONS, PRECISIONS)
    }
    rows = [
        PrecisionRow(*pair, rounds, accepted, accepted / counts["bf16", "bf16"][1])
        for pair, (rounds, accepted) in counts.items()
    ]
    figures = {
        "prompts": prompts,
        "tokens": tokens,
        "target": target,
        "temperature": temperature,
        "num_draft_tokens": NUM_DRAFT_TOKENS,
        "rows": [asdict(row) for row in rows],
    }
    title = f"drafts accepted of {NUM_DRAFT_TOKENS}, temperature {temperature:g}"
    print_results(results_table(title, *LEGENDS["eval precisions"], rows=map(_cells, rows)))
    write_figures(json_file, figures)
    return figures


def _count(ranks: Texts) -> tuple[int, float]:
    """Verifications of the texts, and the drafts accepted in one."""
    runs = [csd_run(one, _ROUNDS, NUM_DRAFT_TOKENS) for one in ranks]
    rounds = round(sum(run.elapsed_s for run in runs))
    return rounds, sum(run.tokens - 1 for run in runs) / rounds - 1.0


def _cells(row: PrecisionRow) -> tuple[str, ...]:
    numbers = f"{row.accepted_per_verification:.2f}", f"{row.relative:.3f}"
    return row.target, row.draft, str(row.verifications), *numbers
