# SPDX-License-Identifier: Apache-2.0
"""What `--explain` prints: the columns of each benchmark's and evaluation's table."""

from __future__ import annotations

from collections.abc import Mapping

OVER_AR = "speed over that of `ar`, the target alone, token by token"
INTERVAL = "95 % confidence interval"
PER_TOKEN = "for each token of the text"

LEGENDS: Mapping[str, Mapping[str, str]] = {
    "bench latency": {
        "one way": "delay of the virtual network in each direction",
        "strategy": "of decoding: the target alone (`ar`), the papers', and ours (`outrider`)",
        "action verified": "median time from the picture to the verified action",
        "95 % interval": f"{INTERVAL} of that median, by a bootstrap over the frames",
        "90th percentile": "of the time to the verified action",
        "whole text": "median time to the end of the text",
        "tokens/s": "verified tokens a second",
        "tokens a round": "verified tokens for one verification",
        "target passes a token": f"forwards of the target {PER_TOKEN}",
    },
    "bench aggregation": {
        "conditions": "regime of benchmarks/aggregation.yaml, and where the extra delay is",
        "method": "how two peers write one text: "
        + "dragon and coupled are ours to compare, paper is printed",
        "ms a token": "at the smallest and at the largest extra delay",
        "ms to the first": "time to the first token, at the same two delays",
        "bytes a token": "up and down, at the largest",
    },
    "bench console": {
        "what": "a figure of the console, measured by real pages over HTTP",
        "measured": "medians; the worst of all clicks beside them",
    },
    "bench relay": {
        "what": "what is timed, in turn at both",
        "direct": "at the robot's own console: median, and 95th percentile",
        "relayed": "through a relay in a process of its own",
        "added": "difference of the medians, and of the percentiles; at most 10 ms each is wanted",
    },
    "bench decoding": {
        "conditions": "regime of benchmarks/regimes.yaml; its assumptions and notes stand there",
        "texts": "synthetic: accepted and predicted as often as in the paper; shipped pair: its own",
        "strategy": "of decoding; outrider is ours",
        "tokens/s": "verified tokens a second on the virtual clock, the prompt left out",
        "over ar": OVER_AR,
        "95 % interval": f"{INTERVAL} of outrider's or the row's speed over `ar`, by a bootstrap of texts",
        "tokens a round": "verified tokens for one verification",
        "cache misses": "rounds for which no draft was ready",
        "first exit": "that predicted the outcome, the mean",
        "passes a token": f"forwards of the target {PER_TOKEN}",
        "bytes up, down": f"on the network {PER_TOKEN}",
        "of the limit": "share of: tokens a round of `sd` / the longer of verification and drafts",
        "of the formula": "speed over that of the paper's own formula",
        "mended": "over that formula with what it leaves out: in FSD a hit waits for unfinished drafts, in "
        "PicoSpec parts of a batch are verified",
        "paper": "speed over `ar` that the paper measured",
        "papers, csd, ssd": "with --alternatives: the best of the papers' strategies; the draft beside the "
        "target, or on a second device there (arXiv 2603.03251), where a token takes that share of a step",
        "EAGLE, *": "what EAGLE-3 prints for such a target; *: the paper has no exits, ours are assumed",
        "mechanism": "with --ablate: mean, median and worst of the changes in speed by condition; vs ar, vs "
        "best: of the speed over `ar`, and over the best alternative",
        "after, engine": "with --changes: what has changed since the last text, and a mechanism that is off",
        "on the clock": "with --live: speed over `ar` of the same texts on the virtual clock",
        "slowest window, its median": "with --changes: least speed over `ar` in 40 steps, 60 or more steps "
        "after the change, of all sessions; the median of the sessions' slowest",
        "below 0.97, at the change": "with --changes: share of such windows; the slowest of all windows",
        "workers, draft length, orders": "with --ablations: FSD's Figures 4(a) and 4(b), Table 7; orders are "
        "those of the robot's and the cloud's queue of hints",
        "late": "with --live: share of the time in which this machine was too slow for the regime's pace",
    },
    "bench hedging": {
        "link": "regime of benchmarks/regimes.yaml whose link and pair these are",
        "losses": "mean length and distance of bursts in each direction of each link, in which all is "
        "held up; or kills of verifiers, each away for 1.5 s",
        "median, 99th": "time from the request to the verified first line, ms; with one verifier, with two",
        "tail gain": "99th percentile with one verifier over that with two",
        "longest": "wait for verified tokens, ms",
        "work, prompts, bytes": "of both verifiers and links over those of one: time of verifications, "
        "prompts read, bytes but for prompts",
        "hedged": "times that the second was asked, for each text",
        "same texts": "token for token",
    },
    "bench drafting": {
        "texts": "what is written: searches, or answers of a household's memory",
        "drafts from": "the draft model, or earlier text: lookup, suffix, calibration, reuse",
        "tokens": "verified tokens for one verification, the target's own included",
        "drafted": "tokens drafted for one verification",
        "draft model": f"forwards of the draft model {PER_TOKEN}",
        "drafting, ms": "processor time to retrieve one draft, the median",
        "learning, ms": "processor time to take in prompts and verified tokens, for one verification",
        "prompt, ms": "processor time to calibrate by one token of a prompt",
    },
    "bench idle": {
        "node": "a process of the graph",
        "share of a core": "processor time over wall time while sensors publish and no goal runs",
        "limit": "what it is to stay below; not on the robot: no limit",
    },
    "bench memory": {
        "what": "kills of a writing process, questions to a household's memory, search times",
        "measured": "counts, shares, or milliseconds: wall time, then processor time",
    },
    "bench models": {
        "what": "a ratio of two times or results of the models; drafts by the precision of their weights",
        "measured": "the ratio; of drafts the share of tokens that the target accepts",
        "is to be": "the bound that it is to keep",
        "how": "both sides of the ratio",
    },
    "bench serving": {
        "strategy": "of decoding, and the pause between the texts of a robot",
        "robots": "on one verifier",
        "tokens/s": "of all robots, and over one robot's",
        "text, ms": "time of a text, and over one robot's",
        "a round": "time of a round, over one robot's",
        "first token": "time to the first token, over one robot's",
        "later token": "time of each later token, over one robot's",
        "batch": "chunks of a forward, the mean",
        "passes a token": f"forwards of the target {PER_TOKEN}",
    },
    "bench fleets": {
        "robots": "on one verifier; below, tokens a second of all of them together",
        "sd": "drafts of the robots, verified as they come",
        "sd, filled": "the same in batches that wait to be filled",
        "csd": "drafts beside the target alone, a token at 5 or 10 % of a forward",
        "outrider": "drafts of the robots alone",
        "both": "drafts of the robots and beside the target",
        "over best": "of both, over the fastest of sd, filled batches and csd",
    },
    "bench weights": {
        "network": "virtual, or with --live emulated; 0 ms: the draft beside the target",
        "strategy": "of decoding",
        "tokens/s": "verified tokens a second",
        "over ar": OVER_AR,
        "95 % interval": f"{INTERVAL} of that, by a bootstrap of texts",
        "over co-located": "speed over that of the draft beside the target",
        "tokens a round": "verified tokens for one verification",
        "passes a token": f"forwards of the target {PER_TOKEN}",
        "bytes up": PER_TOKEN,
        "bytes down": PER_TOKEN,
        "different": "texts that are not the target's own",
    },
    "eval navigation": {
        "figure": "over all homes, and by where the object was at the start",
        "value": "share of homes, or median",
        "95 % interval": f"{INTERVAL} of a share, by Wilson's formula; failed homes are listed below",
    },
    "eval plans": {
        "figure": "of whole plans, and of the finds in them; each begins with an empty memory",
        "value": "share, of how many; or the homes lost, as a share",
        "95 % interval": f"{INTERVAL} of a share by Wilson's formula, of a loss by a bootstrap over homes",
    },
    "eval sentences": {
        "set": "building: served to build the grammar; held_out: never read to change it",
        "language": "of the sentences; all: of the set",
        "sentences": "in the file",
        "right": "came to the intent that was written down for them",
        "95 % interval": f"{INTERVAL} of the share of right ones, by Wilson's formula",
        "must not move": "of them: refusals, stops, rests, questions, what is remembered or forgotten",
        "moved": "of those: the plan has a step that moves; exit status 1 if any does",
    },
    "eval signs": {
        "figure": f"of the same homes; shares with their {INTERVAL}",
        "without signs": "the homes as they are",
        "with signs": "printed orders, control tokens and QR codes on walls and boards",
    },
    "eval voice": {
        "noise": "of the synthetic speech, or of a recorded voice: none, or noise 15 dB below it",
        "plan right": f"commands whose recognised sentence makes the same plan; with the {INTERVAL}",
        "stop in time": f"orders to stop that are heard within 0.5 s of their end; with the {INTERVAL}",
        "false stops": "commands without an order to stop, in which one was heard",
    },
    "eval frames": {
        "pictures": "the set of the folder's index.jsonl, or the look of the homes",
        "answers": "how many pictures",
        "action agrees": f"the expert chose the same action; with its {INTERVAL}",
        "target in view": "the same where the object is in the picture",
        "objects: precision": "share of the objects named that are there",
        "recall": "share of those that the expert names",
        "quoted right": "of the remembered places in a text: those that stand so in its prompt",
    },
    "eval lossless": {
        "frames": "held-out pictures",
        "tokens": "compared, token for token",
        "tokens a round": "verified tokens for one verification of `sd`",
        "texts that differ": "by `sd` or `outrider`, on a good or a rough link; exit status 1 if any does",
        "95 % interval": f"{INTERVAL} of the share of differing texts, by Wilson's formula",
    },
    "eval weights": {
        "network": "emulated, over sockets",
        "texts that differ": "from the target's own; exit status 1 if any does",
        "95 % interval": f"{INTERVAL} of their share, by Wilson's formula",
        "tokens": "compared, token for token",
        "tokens a round": "verified tokens for one verification",
        "met an outage": "texts in which the link was lost",
    },
    "eval precisions": {
        "target": "what the target's weights are kept in",
        "draft": "what the draft's are",
        "verifications": "of all texts",
        "accepted in one": "drafted tokens accepted by one verification, the mean",
        "over bf16": "that over the same at bf16 on both sides",
    },
    "eval documents": {
        "documents": "that the answers were written from",
        "both facts": "answers that hold the private fact and the public one",
        "private": "answers that hold the private fact",
        "public": "answers that hold the public fact",
        "perplexity": "of the right answers",
    },
    "eval exits": {
        "after layer": "of the target's layers",
        "next token": "its choice is the target's, at all verified positions",
        "where the draft is wrong": "the same at positions where the draft was rejected",
        "whole outcome": "its accepted count and next token are the verdict's",
        "confidence": "that it has in that outcome, the mean",
        "right over wrong": "how often a right outcome is surer than a wrong one (AUC)",
        "calibration error": "expected, over ten bins of confidence",
        "cost": "marginal time relative to a verification without exits",
    },
    "eval head": {
        "drafts in the cloud": "what drafts beside the target; but for ar the robot copies earlier text",
        "speed over ar": "processor time of whole texts, prompts included; interval of 95 %",
        "tokens a pass": "of the target, steps included",
        "a token's time": "of a step of the target",
    },
    "eval safety": {
        "fault": "what fails under way; then all faults by the kind of base",
        "faults": "how many were injected",
        "s to zero": "worst time until no motion is asked for",
        "m beyond": "worst way beyond where it should have stood",
        "late": "times it stood too late, went too far or touched something; exit status 1 if any did",
        "reached": "goals reached all the same",
        "ended": "goals that ended with a reason",
    },
    "eval agents": {
        "what": "outside: a sentence that may not be taken, a velocity, a release of the stop, or a true "
        "motion that is further, faster or later than what was said allows",
        "measured": "counts, or medians with the worst beside them; exit status 1 if the robot moved as it "
        "must not, or a stop took more than 0.3 s",
    },
    "eval kills": {
        "killed": "by kill -9, amid a motion; a table of its own holds the other ends",
        "times": "how often",
        "moving": "of them while the robot moved",
        "worst s to zero": "until it stood",
        "late": "stood too late",
        "most m": "moved after the kill",
        "most deg": "turned after the kill",
        "goal reached": "of kills that the goal is to survive",
        "end": "how a process was ended",
        "trials": "how often",
        "median s": "until the robot stood",
        "worst s": "until the robot stood",
        "bound": "what that is to stay below",
        "outlived": "processes left behind",
        "verifier killed": "with --hedged: which of two verifiers; none: control moments, chosen alike",
        "stands": "moments after which the robot moved on; the others came just before the goal's end",
        "longest s": "without motion, until the robot moved by a text that was begun later",
        "failed": "trials in which something was not as it must be",
    },
}


def legend(command: str) -> str:
    """Return the meaning of the columns of a command's table, one line each."""
    columns = LEGENDS[command]
    width = max(map(len, columns))
    return "\n".join(f"{heading:{width}}  {meaning}" for heading, meaning in columns.items())
