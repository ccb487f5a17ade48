// Runs in the audio thread: cuts the microphone's sound into pieces of 40 ms of 16-bit samples.

const PIECE = 640;

class Recorder extends AudioWorkletProcessor {
  constructor() {
    super();
    this.piece = new Int16Array(PIECE);
    this.filled = 0;
  }

  process([[channel]]) {
    for (const value of channel ?? []) {
      this.piece[this.filled] = Math.max(-32768, Math.min(32767, Math.round(value * 32768)));
      this.filled += 1;
      if (this.filled < PIECE) continue;
      this.port.postMessage(this.piece.slice());
      this.filled = 0;
    }
    return true;
  }
}

registerProcessor("recorder", Recorder);
