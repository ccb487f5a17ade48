# SPDX-License-Identifier: Apache-2.0
"""What `--explain` prints: the columns of each benchmark's and evaluation's table."""

from __future__ import annotations

from collections.abc import Mapping

OVER_AR = "speed over that of `ar`, the target alone, token by token"
INTERVAL = "95 % confidence interval"
PER_TOKEN = "per token of the text"

LEGENDS: Mapping[str, Mapping[str, str]] = {
    "bench latency": {
        "one way": "delay of the virtual network in each direction",
        "strategy": "of decoding: the target alone (`ar`), those of the papers, and `outrider`",
        "action verified": "median time from the frame to the verified action",
        "95 % interval": f"{INTERVAL} of that median, by a bootstrap over frames",
        "90th percentile": "of the time to the verified action",
        "whole text": "median time to the end of the text",
        "tokens/s": "verified tokens per second",
        "tokens a round": "verified tokens per verification",
        "target passes a token": f"forwards of the target {PER_TOKEN}",
    },
    "bench aggregation": {
        "conditions": "regime of benchmarks/aggregation.yaml, and the directions with extra delay",
        "method": "how the two peers write one text; paper: the figures that its paper prints",
        "ms a token": "at the smallest and at the largest extra delay",
        "ms to the first": "time to the first token, at the smallest and at the largest extra delay",
        "bytes a token": "up and down, at the largest extra delay",
    },
    "bench console": {
        "what": "a figure of the console, measured by simulated pages over HTTP",
        "measured": "medians; for stops also the worst",
    },
    "bench relay": {
        "what": "what is timed, alternately without and with the relay",
        "direct": "at the robot's own console: median and 95th percentile",
        "relayed": "through a relay in a separate process: median and 95th percentile",
        "added": "difference of the medians and of the percentiles; the limit is 10 ms each",
    },
    "bench decoding": {
        "conditions": "regime of benchmarks/regimes.yaml, which states its assumptions",
        "texts": "synthetic: with the paper's acceptance and exit hits; shipped pair: texts of that pair",
        "strategy": "of decoding; outrider is the one of this package",
        "tokens/s": "verified tokens per second on the virtual clock, without the prompt",
        "over ar": OVER_AR,
        "95 % interval": f"{INTERVAL} of the speed over `ar` (of outrider, if strategies are columns), by "
        "a bootstrap over texts",
        "tokens a round": "verified tokens per verification",
        "cache misses": "share of rounds for which no draft was ready",
        "first exit": "mean number of the first exit that predicted the outcome",
        "passes a token": f"forwards of the target {PER_TOKEN}",
        "bytes up, down": f"on the network {PER_TOKEN}",
        "of the limit": "speed as a share of: tokens a round of `sd` / the longer of verification and "
        "drafting",
        "of the formula": "speed relative to the paper's own formula",
        "mended": "speed relative to that formula with terms that it omits: in FSD a hit waits for "
        "unfinished drafts, in PicoSpec parts of a batch are verified",
        "paper": "speed over `ar` that the paper measured",
        "papers, csd, ssd": "with --alternatives: the best of the papers' strategies; the draft "
        "co-located with the target, or on a second device (arXiv 2603.03251), at that share of a step "
        "per draft token",
        "EAGLE, *": "speed that the EAGLE-3 paper prints for a target of this size; *: exits are assumed, "
        "the regime's paper has none",
        "mechanism": "with --ablate: the mechanism switched off; then mean, median and worst change in "
        "speed; vs ar, vs best: change in the speed over `ar`, and over the best alternative",
        "after, engine": "with --changes: what changed before the text, and the mechanism that is off, if "
        "any",
        "on the clock": "with --live: speed over `ar` of the same texts on the virtual clock",
        "slowest window, its median": "with --changes: lowest speed over `ar` within 40 steps, from 60 "
        "steps after the change on: of all sessions, and the median over sessions",
        "below 0.97, at the change": "with --changes: share of windows below it; the slowest, early "
        "windows included",
        "workers, draft length, orders": "with --ablations: FSD's Figures 4(a) and 4(b), Table 7; orders "
        "of the robot's and of the cloud's queue of hints",
        "late": "with --live: share of the time for which this machine was slower than the regime",
    },
    "bench hedging": {
        "link": "regime of benchmarks/regimes.yaml that gives the link and the pair",
        "losses": "mean length and interval of outages in each direction of each link; or kills of "
        "verifiers, each down for 1.5 s",
        "median, 99th": "time from the request to the verified first line, ms; with one verifier, with two",
        "tail gain": "99th percentile with one verifier over that with two",
        "longest": "wait for verified tokens, ms",
        "work, prompts, bytes": "two verifiers over one: time of verifications, prompts read, bytes "
        "without prompts",
        "hedged": "requests to the second verifier, per text",
        "same texts": "whether all texts are the same, token for token",
    },
    "bench drafting": {
        "texts": "searches of homes, held-out frames, or questions to a household's memory",
        "drafts from": "the draft model, or earlier text by lookup, suffix, calibration or reuse",
        "tokens": "verified tokens per verification, the target's own included",
        "drafted": "draft tokens per verification",
        "draft model": f"forwards of the draft model {PER_TOKEN}",
        "drafting, ms": "processor time to retrieve one draft, the median",
        "learning, ms": "processor time to store prompts and verified tokens, per verification",
        "prompt, ms": "processor time of the calibration, per token of a prompt",
    },
    "bench idle": {
        "node": "process of the node graph",
        "share of a core": "processor time over wall time while sensors publish and no goal runs",
        "limit": "largest share allowed; none for nodes that do not run on the robot",
    },
    "bench memory": {
        "what": "a figure: kills of a writing process, questions to a household's memory, or search times",
        "measured": "a count, a share, or milliseconds of wall time or processor time",
    },
    "bench models": {
        "what": "a ratio of two times or results of the models, or drafts at one precision of the weights",
        "measured": "the ratio; for drafts the mean number of tokens that the target accepts",
        "is to be": "the bound, and whether it was missed",
        "how": "the two values of the ratio, and how they were measured",
    },
    "bench serving": {
        "strategy": "of decoding, and the pause between the texts of a robot",
        "robots": "number of robots on one verifier",
        "tokens/s": "of all robots together, and relative to one robot",
        "text, ms": "time of a text, and relative to one robot",
        "a round": "time of a round, relative to one robot",
        "first token": "time to the first token, relative to one robot",
        "later token": "time of each later token, relative to one robot",
        "batch": "mean number of chunks in a forward",
        "passes a token": f"forwards of the target {PER_TOKEN}",
    },
    "bench fleets": {
        "robots": "number of robots on one verifier; the other columns: tokens/s of all robots together",
        "sd": "drafts of the robots, each verified as soon as possible",
        "sd, filled": "the same in batches that wait for more frames",
        "csd": "draft co-located with the target only, a token at 5 or 10 % of a forward",
        "outrider": "drafts of the robots only",
        "both": "drafts of the robots and of a draft model co-located with the target",
        "over best": "speed of both, relative to the fastest of sd, filled batches and csd",
    },
    "bench weights": {
        "network": "virtual, or with --live emulated; 0 ms: the draft co-located with the target",
        "strategy": "of decoding",
        "tokens/s": "verified tokens per second",
        "over ar": OVER_AR,
        "95 % interval": f"{INTERVAL} of that speed, by a bootstrap over texts",
        "over co-located": "speed relative to the draft co-located with the target",
        "tokens a round": "verified tokens per verification",
        "passes a token": f"forwards of the target {PER_TOKEN}",
        "bytes up": f"on the uplink {PER_TOKEN}",
        "bytes down": f"on the downlink {PER_TOKEN}",
        "different": "number of texts that differ from those of the target alone",
    },
    "eval navigation": {
        "figure": "over all homes, and by the object's place at the start",
        "value": "share of homes, or median",
        "95 % interval": f"{INTERVAL} of a share, by Wilson's formula; failed homes are listed below",
    },
    "eval plans": {
        "figure": "of whole plans, or of the finds in them; each plan begins with an empty memory",
        "value": "share and number of cases; for the loss, a share of the homes",
        "95 % interval": f"{INTERVAL} of a share by Wilson's formula, of a loss by a bootstrap over homes",
    },
    "eval sentences": {
        "set": "building: used to build the grammar; held_out: not used",
        "language": "of the sentences; all: of the set",
        "sentences": "number of sentences",
        "right": "number read with the expected intent",
        "95 % interval": f"{INTERVAL} of the share that is right, by Wilson's formula",
        "must not move": "sentences whose plan must not move the robot: refusals, stops, waits, "
        "questions, memory",
        "moved": "those whose plan moves it nevertheless; exit status 1 if there is one",
    },
    "eval signs": {
        "figure": f"over the same homes; shares with their {INTERVAL}",
        "without signs": "the figure in homes without signs",
        "with signs": "the figure with printed orders, control tokens and QR codes on walls and boards",
    },
    "eval voice": {
        "noise": "added to synthetic speech or to a recorded voice: none, or 15 dB below the speech",
        "plan right": f"commands whose recognised sentence has the right plan, with the {INTERVAL}",
        "stop in time": f"orders to stop recognised within 0.5 s of their end, with the {INTERVAL}",
        "false stops": "commands without an order to stop in which one was recognised",
    },
    "eval frames": {
        "pictures": "the set of the folder's index.jsonl, or the look of the homes",
        "answers": "number of pictures",
        "action agrees": f"share with the expert's action, with its {INTERVAL}",
        "target in view": "the same share where the object is in the picture",
        "objects: precision": "share of the named objects that are in the picture",
        "recall": "share of the expert's objects that are named",
        "quoted right": "share of the remembered places in texts that are in the prompt",
    },
    "eval lossless": {
        "frames": "held-out pictures",
        "tokens": "number of tokens compared",
        "tokens a round": "verified tokens per verification of `sd`",
        "texts that differ": "from the target's, by `sd` or `outrider` on a good or a rough link; exit "
        "status 1 if any does",
        "95 % interval": f"{INTERVAL} of the share of differing texts, by Wilson's formula",
    },
    "eval weights": {
        "network": "emulated, over sockets",
        "texts that differ": "from the target's own; exit status 1 if any does",
        "95 % interval": f"{INTERVAL} of their share, by Wilson's formula",
        "tokens": "number of tokens compared",
        "tokens a round": "verified tokens per verification",
        "met an outage": "texts during which the link was down",
    },
    "eval precisions": {
        "target": "precision of the target's weights",
        "draft": "precision of the draft's weights",
        "verifications": "number for all texts",
        "accepted in one": "mean number of draft tokens accepted by one verification",
        "over bf16": "that number relative to bf16 on both sides",
    },
    "eval documents": {
        "documents": "documents that the answers were written from",
        "both facts": "share of answers with the private and the public fact",
        "private": "share of answers with the private fact",
        "public": "share of answers with the public fact",
        "perplexity": "of the right answers",
    },
    "eval exits": {
        "after layer": "the layer after which the exit reads, of all layers of the target",
        "next token": "share of verified positions at which its choice is the target's",
        "where the draft is wrong": "the same share at positions where the draft was rejected",
        "whole outcome": "share of verifications whose accepted count and next token it predicts",
        "confidence": "its mean confidence in that outcome",
        "right over wrong": "how often a right prediction has more confidence than a wrong one (AUC)",
        "calibration error": "expected calibration error over ten bins of confidence",
        "cost": "marginal time relative to a verification without exits",
    },
    "eval head": {
        "drafts in the cloud": "what drafts there; except with ar, the robot also copies from earlier text",
        "speed over ar": f"by processor time of whole texts, prompts included, with the {INTERVAL}",
        "tokens a pass": "tokens per forward of the target",
        "a token's time": "time of a draft token there, as a share of a step of the target",
    },
    "eval safety": {
        "fault": "what fails during motion; the last rows: all faults, by the kind of base",
        "faults": "number of injected faults",
        "s to zero": "longest time until the base is commanded to stand",
        "m beyond": "longest way beyond the end of a motion",
        "late": "trials in which it stood too late, went too far or touched something; exit status 1 if any",
        "reached": "number of goals reached nevertheless",
        "ended": "number of goals that ended with a reason",
    },
    "eval agents": {
        "what": "a figure; outside: a forbidden sentence that was accepted, a velocity, a release of the "
        "stop, or a motion further, faster or later than its sentence allows",
        "measured": "a count, or median and worst time; exit status 1 if something was outside or a stop "
        "took more than 0.3 s",
    },
    "eval kills": {
        "killed": "the process killed by kill -9; another table has the other ends",
        "times": "number of kills",
        "moving": "number of kills while the robot moved",
        "worst s to zero": "longest time until it stood",
        "late": "number of kills after which it stood too late",
        "most m": "longest way after a kill",
        "most deg": "largest turn after a kill",
        "goal reached": "number of goals reached after kills that a goal must survive",
        "end": "how which process was ended",
        "trials": "number of trials",
        "median s": "median time until the robot stood",
        "worst s": "longest time until the robot stood",
        "bound": "largest time allowed",
        "outlived": "trials after which processes remained",
        "verifier killed": "with --hedged: which of two verifiers; none: control moments without a kill",
        "stands": "number of moments after which the robot moved again before its goal ended",
        "longest s": "longest time without motion, until a text begun after the moment moved the robot",
        "failed": "number of trials in which a requirement was not met",
    },
}


def legend(command: str) -> str:
    """Return the meaning of the columns of a command's table, one line each."""
    columns = LEGENDS[command]
    width = max(map(len, columns))
    return "\n".join(f"{heading:{width}}  {meaning}" for heading, meaning in columns.items())
