"""The checkpoint from which a run resumes survives a full disk."""

from pathlib import Path

import pytest
import torch

from outrider.core.errors import ConfigError
from outrider.training.imitation import save_checkpoint


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run" / "target.checkpoint.pt"
    save_checkpoint(path, {"step": 1})
    path.with_name(f"{path.name}.partial").symlink_to("/dev/full")
    with pytest.raises(ConfigError, match=r"cannot write .*checkpoint\.pt \(No space left on device\)"):
        save_checkpoint(path, {"step": 2})
    assert torch.load(path, weights_only=True) == {"step": 1}
