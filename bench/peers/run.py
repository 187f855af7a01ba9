#!/usr/bin/env python3
"""What a DP-SGD round costs in `rounds` and in the libraries that people use today, side by side.

Sets up a virtual environment (requirements.txt) under target/peers, checks that every peer computes the same clipped sums
as a reference in double precision, measures all of them and `rounds` interleaved in a seeded shuffle, and writes peers.json
and peers.md. A peer that cannot be installed, fails or takes too long is named with the reason and left out. Ctrl-C keeps
what is finished; --resume goes on.

    bench/peers/run.py [--rounds target/release/rounds] [--out DIR] [--batch-sizes 500,2000] [--only jax-closed-form,…]
"""

import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog="See bench/peers/run.py for the whole story.")
    parser.add_argument("--rounds", default=os.path.join(ROOT, "target", "release", "rounds"), metavar="PATH",
                        help="the binary to measure (default: target/release/rounds)")
    parser.add_argument("--out", metavar="DIR", help="where peers.json and peers.md go (default: results/<day>/<machine>/peers)")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of every process (default: all cores)")
    parser.add_argument("--batch-sizes", metavar="SIZES", help="some of 64,500,2000,8000,60000")
    parser.add_argument("--only", metavar="PEERS", help="only these peers (rounds is always measured)")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="samples of every configuration")
    parser.add_argument("--seconds", type=float, default=0.15, metavar="S", help="length of a sample, at least one round")
    parser.add_argument("--limit", type=float, default=3.0, metavar="S", help="leave out what takes longer than this a round")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the order in which things are measured")
    parser.add_argument("--data-dir", default=os.environ.get("ROUNDS_DATA"), metavar="DIR",
                        help="where MNIST's IDX files lie; without them rows of the same shape and sparsity are generated")
    parser.add_argument("--work", default=os.path.join(ROOT, "target", "peers"), metavar="DIR",
                        help="where the environment and the rows are kept (default: target/peers)")
    parser.add_argument("--torch-index", metavar="URL",
                        help="PyTorch's index of CPU wheels, to save 4 GB of CUDA libraries (default: the usual index)")
    parser.add_argument("--resume", action="store_true", help="keep what peers.json in --out holds of other batch sizes and peers")
    return parser.parse_args()


def main():
    given = arguments()
    import environment

    if not (os.path.isfile(given.rounds) and os.access(given.rounds, os.X_OK)):
        sys.exit(f"peers: there is no binary {given.rounds}; make it with `cargo build --release -p rounds`, "
                 "or name one with --rounds")
    python = environment.prepare(given.work, given.torch_index)
    if os.environ.get("ROUNDS_PEERS_ENVIRONMENT") != python:
        os.environ["ROUNDS_PEERS_ENVIRONMENT"] = python
        os.execv(python, [python, "-B", os.path.join(HERE, "run.py"), *sys.argv[1:]])
    import comparison

    try:
        sys.exit(comparison.run(given))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
