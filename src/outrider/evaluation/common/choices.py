# SPDX-License-Identifier: Apache-2.0
"""Names that a benchmark or an evaluation accepts, read without importing what it measures with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from outrider.core.errors import ConfigError
from outrider.core.files.given_file import cause_of
from outrider.decoding.tuning import SWITCHES
from outrider.runtime.common.paths import benchmark_file

REGIMES_FILE = "regimes.yaml"
AGGREGATION_FILE = "aggregation.yaml"
ALL = "all"
_Regime = TypeVar("_Regime")


def read_regimes(path: Path, form: type[_Regime], names: Sequence[str] = ()) -> dict[str, _Regime]:
    """Return the regimes of a file with these names, or all if none is given. Raises ConfigError."""
    try:
        known = msgspec.yaml.decode(path.read_bytes(), type=dict[str, form])  # type: ignore[valid-type]
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path} describes no regimes ({cause_of(error)}): restore the file") from None
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(f"no regime {', '.join(unknown)}; known: {', '.join(known)}")
    return {name: known[name] for name in names} if names else known


def check_paced(motion: str, round_trip_ms: float, model: str, memory: str) -> None:
    """Raise ConfigError if answers cannot take their time in `outrider eval navigation` as asked."""
    from outrider.runtime.node_graph.node_specs import MOTIONS  # slow: imports all nodes' parameters

    if round_trip_ms and not motion:
        raise ConfigError(f"a round trip needs a motion: add --motion, one of {', '.join(MOTIONS)}")
    if motion and (model == "expert" or memory == "on"):
        raise ConfigError("--motion is for models without a memory: leave --memory and --model expert away")


def check_regime(file: str, name: str) -> None:
    """Raise ConfigError for a regime that a file of benchmarks/ does not have."""
    read_regimes(benchmark_file(file), dict[str, Any], [name])


def chosen_mechanisms(names: Sequence[str]) -> tuple[str, ...]:
    """Return the switches of these names, each once; `all` means all. Raises ConfigError for another name."""
    unknown = [name for name in names if name not in (*SWITCHES, ALL)]
    if unknown:
        raise ConfigError(f"no mechanism {', '.join(unknown)}: choose from {ALL}, {', '.join(SWITCHES)}")
    return SWITCHES if ALL in names else tuple(dict.fromkeys(names))
