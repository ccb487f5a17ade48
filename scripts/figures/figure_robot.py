# SPDX-License-Identifier: Apache-2.0
"""Tables and numbers of safety, signs, voice, kills, memory, console and idle nodes."""

from __future__ import annotations

from collections.abc import Callable

from figure_results import Results, markdown_table, share_text, span

from outrider.evaluation.common.intervals import wilson_interval

SAFETY = ("safety-0", "safety-1")


def signs(results: Results) -> str:
    """Returns the table that compares homes without signs and with signs."""
    one = results["signs"]
    sides, homes = (one["without"], one["with"]), one["homes"]
    names = {
        "outside": "motions outside the envelope",
        "marked_prompts": "prompts with others' control tokens",
    }
    low, high = one["success_difference_interval"]
    rows = [
        (
            "found of homes (95 %)",
            *(share_text(round(side["success_rate"] * homes), homes) for side in sides),
        ),
        (
            "touched something (95 %)",
            *(share_text(round(side["collision_rate"] * homes), homes) for side in sides),
        ),
        ("motions", *(str(side["motions"]) for side in sides)),
        *((text, *(str(side[name]) for side in sides)) for name, text in names.items()),
        ("texts refused of all", *(f"{side['refused_texts']} of {side['texts']}" for side in sides)),
        ("slowest stand after an emergency stop, s", *(f"{side['stop_worst_s']:.2f}" for side in sides)),
        (
            "found with signs, less without (95 %)",
            "",
            f"{one['success_difference']:+.3f} ({low:+.3f} to {high:+.3f})",
        ),
    ]
    return markdown_table((f"{homes} homes, {one['signs']} signs", "without signs", "with signs"), rows)


def voice(results: Results) -> str:
    """Returns the table of recognised speech, by noise."""
    rows = [
        (
            level["noise"],
            _counted(level["plans_right"], level["commands"], level["plan_interval"]),
            _counted(level["stops_in_time"], level["stops"], level["stop_interval"]),
            f"{level['false_stops']} of {level['commands']}",
        )
        for level in results["voice"]["levels"]
    ]
    return markdown_table(("noise", "plan right", "stop within 0.5 s", "a stop heard that nobody said"), rows)


def sentences(results: Results) -> str:
    """Returns the table of sentences that were written before the grammar, by half and language."""
    rows = [
        (
            f"`{half}`, {language}",
            _counted(one["right"], one["sentences"], one["right_interval"]),
            f"{one['moved']} of {one['must_not_move']}",
        )
        for half, languages in results["sentences"]["sets"].items()
        for language, one in languages.items()
    ]
    return markdown_table(("sentences", "intent right (95 %)", "moved of those that must not"), rows)


def recorded_voices(results: Results) -> str:
    """Returns the table of spoken stops in recorded voices, by noise."""
    rows = [
        (
            one["voice"],
            one["noise"],
            f"{one['stops_in_time']} of {one['stops']}",
            f"{one['false_stops']} of {one['commands']}",
        )
        for one in results["voice"]["recorded"]
    ]
    return markdown_table(("voice", "noise", "stop within 0.5 s", "a stop heard that nobody said"), rows)


def _counted(count: int, trials: int, interval: tuple[float, float]) -> str:
    low, high = interval
    return f"{count} of {trials} ({100 * low:.0f} to {100 * high:.0f} %)"


def _trials(results: Results) -> int:
    return sum(results[name]["injections"] for name in SAFETY)


def injections(results: Results) -> str:
    """Returns how many faults were injected."""
    return str(_trials(results))


def missed(results: Results) -> str:
    """Returns the number of faults after which the robot stopped late or went too far."""
    return str(sum(results[name]["missed"] for name in SAFETY))


def slowest_stand(results: Results) -> str:
    """Returns the longest time in seconds from a fault until the robot stopped."""
    return f"{max(results[name]['worst_to_zero_s'] for name in SAFETY):.2f} s"


def missed_interval(results: Results) -> str:
    """Returns the interval of the share of faults after which the robot stopped late or went too far."""
    return span(wilson_interval(int(missed(results)), _trials(results)), ".3f")


def safety(results: Results) -> str:
    """Returns the table of injected faults, by the base's command interface."""
    rows = []
    for base in results[SAFETY[0]]["bases"]:
        some = [results[name]["bases"][base] for name in SAFETY]
        sums = (
            str(sum(one[key] for one in some))
            for key in ("injections", "missed", "reached", "ended_with_reason")
        )
        count, late, reached, ended = sums
        worst = (f"{max(one[key] for one in some):.2f}" for key in ("worst_to_zero_s", "worst_overrun_m"))
        rows.append((f"`{base}`", count, *worst, late, reached, ended))
    return markdown_table(
        (
            "base",
            "faults",
            "slowest stand, s",
            "most beyond the command, m",
            "late or too far",
            "goal reached",
            "ended with a reason",
        ),
        rows,
    )


def fault_kinds(results: Results) -> str:
    """Returns how many kinds of faults there are."""
    return str(len(results[SAFETY[0]]["faults"]))


def kills(results: Results) -> str:
    """Returns the table of processes ended by kill -9."""
    result = results["kills"]
    every = {"verifier": result["verifier_kills"], **result["node_kills"]}
    rows = [
        (name, str(row["kills"]), f"{row['worst_to_zero_s']:.2f}", str(row["late"]), "-")
        for name, row in every.items()
    ]
    for name, row in result["bystander_kills"].items():
        rows.append((name, str(row["kills"]), "-", "-", f"{row['reached']} of {row['kills']}"))
    return markdown_table(("kill -9 of", "times", "slowest stand, s", "late", "goal reached"), rows)


def hedged_kills(results: Results) -> str:
    """Returns the table of kills of one of two verifiers."""
    rows = [
        (name, str(row["times"]), str(row["moving"]), f"{row['median_s']:.2f}", f"{row['longest_s']:.2f}")
        for name, row in results["hedged-kills"]["rows"].items()
    ]
    return markdown_table(
        ("kill -9 of the verifier", "times", "while it moved", "median stand, s", "longest, s"), rows
    )


def records_lost(results: Results) -> str:
    """Returns the README's cells for lost records: the figure, the number of kills and the interval.

    The interval is that of the share of kills that lose records: a kill can lose only the last write.
    """
    lost, kills = results["memory"]["lost_records"], results["memory"]["kills"]
    return f"{lost} | {kills} kills | {span(wilson_interval(min(lost, kills), kills), '.3f')}"


def memory(results: Results) -> str:
    """Returns the table of the memory's figures."""
    one = results["memory"]
    pairs = (
        (
            f"records lost of those confirmed before a kill -9, {one['kills']} times",
            f"{one['lost_records']} of {one['acknowledged_records']}",
        ),
        (
            f"{one['questions']} household questions whose record is first / among three",
            f"{one['questions_recall_at_1']:.2f} / {one['questions_recall_at_3']:.2f}",
        ),
        (
            f"{one['riddles']} riddles, which avoid the words of their record",
            f"{one['riddles_recall_at_1']:.2f} / {one['riddles_recall_at_3']:.2f}",
        ),
        (
            f"processor ms of a recall from {one['records']:,} records, with the query's embedding",
            f"{one['recall_processor_ms']:.1f}",
        ),
        ("the same near a place (3 m)", f"{one['recall_near_processor_ms']:.1f}"),
        ("the same of what was told", f"{one['recall_told_processor_ms']:.1f}"),
        ("processor ms to remember a sentence", f"{one['remember_processor_ms']:.1f}"),
    )
    return markdown_table(("what", "figure"), list(pairs))


def console(results: Results) -> str:
    """Returns the table of the console's costs for its viewers."""
    one = results["console"]
    stop = f"{one['e_stop_ms']:.0f} / {one['e_stop_worst_ms']:.0f} ms"
    silence = f"{one['silence_ms']:.0f} / {one['silence_worst_ms']:.0f} ms"
    rows = [
        ("pictures a second, each viewer", f"{one['pictures_per_s']:.1f}"),
        ("share of one core that the console takes", f"{one['processor']:.2f}"),
        ("time of a text, watched over unwatched", f"{one['slowdown']:.2f}"),
        (f"click on the stop to the news that the robot stands, median / worst of {one['e_stops']}", stop),
        ("last message of a page that drives to the news that the robot stands", silence),
    ]
    return markdown_table((f"{one['viewers']} viewers", "figure"), rows)


def relay(results: Results) -> str:
    """Returns the table of the delays that a relay adds to the console."""
    one = results["relay"]
    timed = {
        "ping_ms": "a ping and its answer",
        "e_stop_ms": "click on the stop until the robot is told",
        "picture_ms": "a picture from the robot to the page",
    }
    ways = ("direct", "relayed", "added")
    rows = [
        (words, *("{:.1f}, {:.1f} ms".format(*one[name][way]) for way in ways))
        for name, words in timed.items()
    ]
    return markdown_table((f"{one['trials']} each", *ways), rows)


def idle(results: Results) -> str:
    """Returns the table of each node's share of a core while no goal runs."""
    one = results["idle"]
    limits = one["limits"]
    rows = [
        (f"`{name}`", f"{share:.3f}", f"{limits[name]:.2f}" if name in limits else "-")
        for name, share in one["shares"].items()
    ]
    return markdown_table(("node", "share of a core", "limit"), rows)


ROBOT: dict[str, Callable[[Results], str]] = {
    "signs": signs,
    "voice": voice,
    "sentences": sentences,
    "recorded_voices": recorded_voices,
    "injections": injections,
    "missed": missed,
    "slowest_stand": slowest_stand,
    "missed_interval": missed_interval,
    "safety": safety,
    "fault_kinds": fault_kinds,
    "kills": kills,
    "hedged_kills": hedged_kills,
    "records_lost": records_lost,
    "memory": memory,
    "console": console,
    "relay": relay,
    "idle": idle,
}
