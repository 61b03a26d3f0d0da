"""Runs the package greenstalk as a peer of the benchmark.

Called with a host and a port. Reads lines "put JOBS BODY_SIZE" and "take JOBS BODY_SIZE" from standard input, does that
many jobs one command at a time, and answers each line with "done".
"""

import sys

import greenstalk


def main():
    client = greenstalk.Client((sys.argv[1], int(sys.argv[2])), encoding=None)
    print("ready", flush=True)
    for line in sys.stdin:
        verb, jobs, size = line.split()
        if verb == "put":
            body = b"x" * int(size)
            for _ in range(int(jobs)):
                client.put(body, priority=1024, delay=0, ttr=60)
        else:
            for _ in range(int(jobs)):
                client.delete(client.reserve(timeout=0))
        print("done", flush=True)


main()
