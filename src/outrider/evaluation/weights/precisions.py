# SPDX-License-Identifier: Apache-2.0
"""`outrider eval precisions`: how many fewer draft tokens are accepted when models have fewer bits.

Each model is loaded once. Targets write texts, and each draft model ranks every token of them. The ranks show
how many draft tokens a verification would accept, so that no pair has to run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from outrider.core.errors import ConfigError
from outrider.core.files.given_file import cause_of
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
"""With these costs the time of a text is its number of verifications."""

Texts = list[list[int]]


@dataclass(frozen=True)
class PrecisionRow:
    """A pair: its draft tokens accepted per verification, and `relative` to the pair with both at bf16."""

    target: str
    draft: str
    verifications: int
    accepted_per_verification: float
    relative: float


@dataclass(frozen=True)
class PrecisionTrial:
    """What every model is given. Where `folder` is set, texts and ranks are kept there and read again."""

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
        """Returns the texts that the target writes."""
        return self._read_or_make(f"texts-{precision}-{self._name}", lambda: self._write(precision))

    def ranks(self, precision: Precision, texts: dict[Precision, Texts]) -> dict[Precision, Texts]:
        """Returns the draft's rank for each token of the targets' texts, by the target's precision."""
        all_ranks = self._read_or_make(
            f"ranks-{precision}-{self._name}",
            lambda: self._rank(precision, [text for by_target in texts.values() for text in by_target]),
        )
        size = len(self.prompts)
        return {kind: all_ranks[index * size : (index + 1) * size] for index, kind in enumerate(texts)}

    @property
    def _name(self) -> str:
        return f"{self.target}-{len(self.prompts)}-{self.tokens}-{self.temperature:g}"

    def _write(self, precision: Precision) -> Texts:
        model = load_target(self.target, precision, sessions=TOGETHER)
        return target_texts(model, self.prompts, self.config, self.tokens)

    def _rank(self, precision: Precision, texts: Texts) -> Texts:
        draft, config = load_draft(precision), self.config
        prompts = list(self.prompts) * (len(texts) // len(self.prompts))
        pairs = tracked(list(zip(prompts, texts, strict=True)), f"ranks of the draft in {precision}")
        return [list(draft_ranks(draft, prompt, ids, config.sampling_for(prompt))) for prompt, ids in pairs]

    def _read_or_make(self, name: str, make: Callable[[], Texts]) -> Texts:
        path = None if self.folder is None else self.folder / f"{name}.json"
        if path is None or not path.exists():
            texts = make()
            write_figures(path, {"texts": texts})
            return texts
        try:
            return msgspec.json.decode(path.read_bytes(), type=dict[str, Texts])["texts"]
        except (OSError, msgspec.DecodeError, KeyError) as error:
            raise ConfigError(f"{path} holds no texts ({cause_of(error)}): delete it") from None


def evaluate_precisions(
    prompts: int,
    tokens: int,
    target: Size = "1.5b",
    temperature: float = 0.0,
    run: Path | None = None,
    json_file: Path | None = None,
) -> dict[str, Any]:
    """Measure, print a table, write JSON. Raises ModelError without weights, and ConfigError."""
    trial = PrecisionTrial(real_prompts(prompts), tokens, target, run, temperature)
    texts = {precision: trial.texts(precision) for precision in PRECISIONS}
    ranks = {precision: trial.ranks(precision, texts) for precision in PRECISIONS}
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
    """The number of verifications of the texts, and the draft tokens accepted per verification."""
    runs = [csd_run(text_ranks, _ROUNDS, NUM_DRAFT_TOKENS) for text_ranks in ranks]
    rounds = round(sum(run.elapsed_s for run in runs))
    return rounds, sum(run.tokens - 1 for run in runs) / rounds - 1.0


def _cells(row: PrecisionRow) -> tuple[str, ...]:
    numbers = f"{row.accepted_per_verification:.2f}", f"{row.relative:.3f}"
    return row.target, row.draft, str(row.verifications), *numbers
