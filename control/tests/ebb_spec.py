#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Ebb in floating point, from the text of docs/ebb-spec.md alone, and a check of it by the test vectors.

usage: ebb_spec.py < ebb_vectors.txt

The specification is complete where this program and leeway_ebb.h decide the same.
"""

import math
import sys

SEGMENT = 1500.0
NEVER = -math.inf
PHASES = {"begin": 0, "fill": 1, "yield": 2, "check": 3}
TOLERANCE = 0.005
"""Part of the window by which arithmetic may differ."""


def between(low, value, high):
    return min(max(value, low), high)


class Line:
    """Section 4."""

    def __init__(self):
        self.sent = self.acked = self.least = None
        self.run = self.run_us = 0  # segments and time since the first sample of the burst
        self.gaps, self.mean, self.deviation, self.varies = 0, 0.0, 0.0, False
        self.rate = self.most = 0.0
        self.hold = self.largest_hold = self.batched = self.came = 0
        self.noise, self.half_us = [0.0, 0.0], NEVER
        self.delayed = False

    def fast(self):
        return self.least is None or self.least < 8000

    def hazy(self):
        return self.gaps >= 3 and self.varies and self.fast()

    def segment_us(self):
        if not self.hazy():
            return self.least
        return min(self.mean, SEGMENT * 1e6 / self.most) if self.most else self.mean

    def noise_us(self):
        return max(0.0, max(self.noise) - self.hold) if self.fast() else 0.0

    def together(self, looks):
        return (2 if self.delayed else 1) * (2 if self.hazy() or (looks and self.gaps < 8 and self.fast()) else 1)

    def add_noise(self, now, noise_us):
        if now - self.half_us > 20e6:
            self.noise, self.half_us = [0.0, self.noise[0]], now
        self.noise[0] = max(self.noise[0], min(noise_us, 15000))

    def on_ack(self, now, acked, begins_round, recovering, delivered, interval):
        if begins_round:
            if self.largest_hold > 1000 and self.batched >= 0.3 * self.came:
                self.add_noise(now, self.largest_hold)
            self.largest_hold = self.batched = self.came = 0
        if interval:
            self.rate = delivered * 1e6 / interval
            if delivered >= 16 * SEGMENT and not recovering:
                self.most += max(0.0, self.rate - self.most) / 4
        if acked >= 2 * SEGMENT and not recovering:
            self.delayed = True

    def on_sample(self, now, acked, sent):
        segments = max(1, acked // SEGMENT)
        self.came += segments
        if self.acked is not None:
            gap, apart = now - self.acked, sent - self.sent
            if gap < 30 and 0 <= apart < 1e6:
                if apart:
                    self.batched += segments * (1 if self.hold else 2)
                self.hold += apart
                self.largest_hold = max(self.largest_hold, self.hold)
            else:
                self.hold = 0
            if 0 <= apart < max(30, min(100, gap / 8)) and gap < 1e6 and acked >= SEGMENT:
                self.burst_gap(now, gap, segments)
            else:
                self.run = self.run_us = 0
        self.sent, self.acked = sent, now

    def burst_gap(self, now, gap, segments):
        if self.run == 0 or (self.run == 1 and self.delayed):
            each, first = gap / segments, self.gaps == 0
            apart = 0.0 if first else abs(each - self.mean)
            self.gaps += 1
            self.mean += (each - self.mean) / min(self.gaps, 16)
            self.deviation += (apart - self.deviation) / min(self.gaps, 8)
            self.varies = self.deviation > self.mean / (16 if self.varies else 8)
            if self.gaps >= 6:
                self.add_noise(now, 3 * self.deviation)
        self.run += segments
        self.run_us += gap
        if self.run_us and (self.least is None or self.run_us / self.run < self.least):
            self.least = self.run_us / self.run


class Ebb:
    """Sections 3 and 5 to 7."""

    def __init__(self):
        self.line = Line()
        self.window, self.resume, self.memory = 10 * SEGMENT, 0.0, 0.0
        self.buckets, self.bucket_us, self.base, self.queue = [], 0, None, 0
        self.segment, self.noise, self.n, self.threshold, self.pacing = None, 0.0, 1, 0.0, 0.0
        self.phase, self.since, self.probed = "begin", 0, False
        self.busy = self.clear = self.busy_sum = 0
        self.busy_us = self.met = self.reacted = NEVER
        self.chances, self.lost = 0.0, 0
        self.peak = self.room = 0.0
        self.near, self.short = None, False

    def enter(self, phase, now):
        if not (phase == "fill" and self.phase in ("begin", "fill")):
            self.since = now
        self.phase, self.busy, self.clear, self.busy_sum, self.probed = phase, 0, 0, 0, False

    def cut(self, window):
        self.window = min(self.window, max(window, 0.01 * SEGMENT))

    def check(self, now, resume, part):
        self.resume = resume
        self.cut(part * resume)
        self.enter("check", now)

    def leave(self, now):
        self.cut(0.05 * self.window)
        self.memory *= 0.8
        self.enter("yield", now)

    def output(self, smoothed):
        if self.base is None:
            return
        round_us = self.base
        self.n = self.line.together(self.phase == "begin" or self.window < 4 * SEGMENT)
        if self.window < SEGMENT:
            self.n, round_us = 2, max(round_us, smoothed)
        least = SEGMENT * 1e6 / max(500e3, 100 * (self.segment or 0), 4 * self.base)
        self.pacing = max(self.window * 1e6 / round_us, least)

    def on_ack(self, now, acked, rtt, smoothed, flags, delivered, prior, interval, lost):
        begins_round, limited, recovering, marked, held = (flags >> bit & 1 for bit in range(5))
        waits = self.phase in ("check", "yield")
        self.line.on_ack(now, acked, begins_round, recovering, delivered - prior, interval)
        more, self.lost = max(0, lost - self.lost), max(lost, self.lost)
        self.chances = min(max(0.0, self.chances - acked / SEGMENT) + 20 * more / SEGMENT, 400)
        if more and self.chances >= 200 and self.phase != "yield":
            self.leave(now)
            self.reacted, waits = now, True
        if begins_round:
            self.peak /= 2
            self.memory *= 0.97 if waits else 1
        if rtt and (not held or (self.window < SEGMENT and rtt - (self.base or 0) <= self.threshold)):
            self.on_sample(now, acked, rtt, smoothed, limited)
        if self.phase in ("begin", "fill") and acked and not limited and self.base is not None:
            self.grow(now, acked)
        if marked and now - self.reacted >= smoothed:
            self.cut(0.5 * self.window)
            self.enter("yield", now)
            self.reacted = now
        self.output(smoothed)

    def on_sample(self, now, acked, rtt, smoothed, limited):
        sent = now - rtt
        if not self.buckets or now - self.bucket_us >= 60e6:
            self.buckets, self.bucket_us = [*self.buckets, rtt][-10:], now
        self.buckets[-1] = min(self.buckets[-1], rtt)
        self.base = min(self.buckets)
        self.queue = rtt - self.base
        self.line.on_sample(now, acked, sent)
        self.segment, self.noise = self.line.segment_us(), self.line.noise_us()
        s, before = self.segment or 0, (self.n - 1) * (self.segment or 0)
        most = max(between(1000, self.base / 100, 2500), min(1.2 * s if s else 14400, self.base / 4), self.noise)
        self.short = self.near is not None and self.near > 0.5 and self.room / 4 < most
        if self.short:
            most = max(self.room / 4, s / 2, min(self.noise, self.room / 2))
        self.threshold = most + before
        others = max(0, self.queue - before)
        self.peak, self.room = max(self.peak, others), max(self.room, others)
        busy = self.queue > self.threshold
        if busy:
            self.busy_us = now
        if busy or (s and others > max(s / 2, self.noise)):
            self.met = sent
        if sent >= self.since:
            self.count(now, 2 if self.line.delayed and acked >= 2 * SEGMENT else 1, busy)
            self.decide(now, smoothed, limited)

    def count(self, now, segments, busy):
        self.busy += segments if busy else 0
        self.busy_sum += segments * self.queue if busy else 0
        self.clear += 0 if busy else segments

    def decide(self, now, smoothed, limited):
        need, below = int(0.3 * self.window / SEGMENT + 1e-9), self.window < SEGMENT
        waits, yields = self.phase in ("check", "yield"), self.phase == "yield"
        calm = now - self.busy_us
        if self.busy >= max(need, 1 if waits and below else 2):
            if self.phase == "begin":
                self.memory = self.window / 2
                self.check(now, self.window / 2, 0.9)
            elif self.phase == "fill":
                self.check(now, 0.9 * self.window * self.base / (self.base + self.busy_sum / self.busy), 0.9)
            else:
                self.cut(self.window * (0.7 if self.window <= SEGMENT else 0.5))
                self.enter("yield", now)
        elif waits and self.clear >= max(need, 1) and not limited:
            if yields and ((not below and calm < 1.5 * self.base) or (self.short and calm < 7.5 * self.base)):
                return
            if yields and below and not self.probed:
                self.enter("yield", now)
                self.probed = True
                return
            self.window = max(self.window, max(SEGMENT, 0.75 * self.memory) if yields else self.resume)
            self.enter("fill", now)
        elif self.phase == "fill" and self.clear * SEGMENT >= self.window:
            self.memory = max(self.memory, self.window)
            self.enter("fill", now)

    def grow(self, now, acked):
        pipe = self.base / self.segment if self.segment else None
        if self.phase == "begin":
            self.window += acked
            if pipe and self.window >= 0.75 * pipe * SEGMENT:
                self.window = min(self.window, max(0.75 * pipe, 1) * SEGMENT)
                self.memory = self.window
                self.enter("fill", now)
        elif self.window < 0.9 * self.memory:
            self.window = min(self.window + acked, 0.9 * self.memory)
        else:
            window, k = self.window / SEGMENT, 0.3 if now - self.busy_us > 1e6 else 0.1
            step = max(0.25, min(self.base / 5000, (pipe or window) / 32))
            step += k * max(0, 0.9 * (pipe or 0) - window) * min(self.base / 60000, 60000 / self.base)
            self.window += min(acked, acked * step / max(window, 1))

    def on_loss(self, now, sent, timeout, smoothed):
        if sent <= self.reacted:
            return
        few = not timeout and self.window >= 2 * SEGMENT and self.chances < 200
        if not self.lost:
            self.chances = min(self.chances + 20, 400)
        if not timeout:
            self.room = max(7 / 8 * self.room, self.peak)
            came_near = 1 if 4 * self.peak >= self.room else 0
            self.near = came_near if self.near is None else self.near + (came_near - self.near) / 4
        if few and self.met < sent - self.base / 2:
            self.cut(0.95 * self.window)
        elif few and self.phase in ("fill", "check") and self.line.rate * (self.segment or 0) >= 0.85e6 * SEGMENT:
            self.resume = 0.9 * self.window
            self.check(now, 0.9 * self.window, 0.944)
        else:
            self.leave(now)
            self.window = min(self.window, SEGMENT) if timeout else self.window
        self.reacted = now
        self.output(smoothed)


def main():
    law, smoothed, lines, wrong = Ebb(), 0, 0, 0
    for number, line in enumerate(sys.stdin, 1):
        kind, *fields = line.partition(" = ")[0].split() or [""]
        if kind == "new":
            law = Ebb()
        if kind not in ("ack", "loss"):
            continue
        lines += 1
        fields = [int(field) for field in fields]
        if kind == "ack":
            smoothed = fields[3]
            law.on_ack(*fields)
        else:
            law.on_loss(fields[0], fields[1], fields[2], smoothed)
        want = [int(field) for field in line.partition(" = ")[2].split()]
        got = [law.window * 65536, law.pacing, law.n, PHASES[law.phase], law.queue]
        near = all(abs(a - b) <= TOLERANCE * b + 1 for a, b in zip(got[:2], want[:2], strict=True))
        if not near or got[2:] != want[2:]:
            wrong += 1
            print(f"line {number}: {got}, expected {want}")
    print(f"{lines} events, {wrong} wrong")
    return wrong != 0 or lines == 0


if __name__ == "__main__":
    sys.exit(main())
