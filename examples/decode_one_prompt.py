# SPDX-License-Identifier: Apache-2.0
"""Decode one prompt with two models in this process: the draft proposes tokens, the target verifies them.

python examples/decode_one_prompt.py "find the red chair"
"""

import sys

import outrider


def main(instruction: str = "find the silver bottle") -> outrider.Decoded:
    """Prints the text as it is verified, then its decoding statistics."""
    pair = outrider.load_pair()  # or load_pair(Path("my/models")), with target/, draft/ and tokenizer/
    config = outrider.DecodingConfig(strategy="outrider", num_draft_tokens=4)
    decoder = outrider.local_decoder(pair.target, pair.draft, config)
    decoded = decoder.decode(outrider.DecodeRequest(example_prompt(instruction)), show)
    decoder.close()

    print(
        f"\n{len(decoded.token_ids)} tokens in {decoded.target_passes:.1f} passes of the target, "
        f"{decoded.tokens_per_round:.1f} a round, {decoded.tokens_per_s:.0f} a second"
    )
    return decoded


def example_prompt(instruction: str) -> outrider.Prompt:
    """Returns the prompt of a goal's first step, with a simulated image. Any JPEG of your own will do."""
    home = outrider.generate_home(seed=3)
    simulator = outrider.open_simulator(home, seed=3, odometry_noise=0.0, legs=False)
    text = outrider.render_prompt(outrider.PromptContext(instruction))
    return outrider.Prompt(text, simulator.frame_jpeg())


def show(verified: outrider.Verified) -> None:
    """Prints newly verified text. The decoder calls this for each batch of tokens that becomes final."""
    print(f"{verified.elapsed_s * 1000:6.0f} ms  {verified.text!r}")


if __name__ == "__main__":
    main(*sys.argv[1:])
