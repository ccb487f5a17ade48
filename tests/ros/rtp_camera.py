"""Plays the Go2's front camera on the loopback: H.264 over RTP to its multicast group. Argument: port.

Prints a line once it sends.
"""

import sys
import time

import av
import numpy as np

from outrider.nodes.camera.live_source import RTP_GROUP

WIDTH, HEIGHT, RATE_HZ = 640, 360, 30


def main(port: int) -> None:
    output = av.open(f"rtp://{RTP_GROUP}:{port}?localaddr=127.0.0.1&pkt_size=1200", "w", format="rtp")
    options = {"tune": "zerolatency", "preset": "ultrafast", "g": "5", "bf": "0"}
    stream = output.add_stream("libx264", rate=RATE_HZ, options=options)
    stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
    began_s = time.monotonic()
    while True:
        # A red picture that a white edge crosses once every two seconds.
        age_s = time.monotonic() - began_s
        pixels = np.full((HEIGHT, WIDTH, 3), (200, 0, 0), np.uint8)
        pixels[:, : int(WIDTH * (age_s / 2.0 % 1.0))] = 255
        frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
        frame.pts = int(age_s * RATE_HZ)
        for packet in stream.encode(frame):
            output.mux(packet)
        if age_s < 1.0 / RATE_HZ:
            print("sending", flush=True)
        time.sleep(1.0 / RATE_HZ)


if __name__ == "__main__":
    main(int(sys.argv[1]))
