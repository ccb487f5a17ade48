# SPDX-License-Identifier: Apache-2.0
"""`python -m outrider.evaluation.agents.hasty_server URL`: serves agents with a far higher rate limit.

So their sentences reach the grammar, where `outrider mcp` would refuse them for their rate.
"""

from __future__ import annotations

import logging
import sys

from outrider.console.agents.address import ConsoleAddress
from outrider.console.agents.agent import AgentSettings
from outrider.console.agents.envelope import Envelope
from outrider.console.agents.serving import serve_pipe
from outrider.console.notes import note_nothing
from outrider.runtime.common.paths import models_folder
from outrider.runtime.common.thinned_log import ThinnedHandler
from outrider.runtime.mission.words import vocabulary_of

HASTE = 1000.0

if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR, handlers=[ThinnedHandler()])
    envelope = Envelope(vocabulary_of(str(models_folder() / "draft")))
    serve_pipe(AgentSettings(ConsoleAddress(sys.argv[1]), envelope, "", haste=HASTE), note_nothing)
