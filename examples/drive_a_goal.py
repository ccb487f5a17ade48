# SPDX-License-Identifier: Apache-2.0
"""Drive a simulated robot to the object that an instruction names, all in this process.

Each step takes a camera image, decodes an action from it and carries out the motion.

python examples/drive_a_goal.py "go to the blue chair" 7
"""

import sys

import outrider


def main(instruction: str = "find the silver bottle", seed: int | str = 4) -> outrider.EpisodeResult:
    """Prints every action, then whether the object was found and the final distance to it."""
    home = outrider.generate_home(int(seed), outrider.target_of(instruction), placement="in_view")
    pair = outrider.load_pair()
    decoder = outrider.local_decoder(pair.target, pair.draft, outrider.DecodingConfig())
    result = outrider.run_episode(
        home,
        instruction,
        lambda simulator: outrider.model_answerer(decoder),
        outrider.NavigatorSettings(max_steps=60),
        odometry_noise=0.02,
    )
    decoder.close()

    for step, action in enumerate(result.actions, start=1):
        print(f"{step:3d}  {action}")
    verdict = "found it" if result.success else f"did not find it ({result.outcome})"
    print(f"{verdict}: {result.target_distance_m:.2f} m from it after {result.path_m:.1f} m")
    return result


if __name__ == "__main__":
    main(*sys.argv[1:])
