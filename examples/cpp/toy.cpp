// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Leeway's laws behind an interface in the manner of ns-3's TcpCongestionOps.
//
//     c++ -std=c++17 -O2 $(pkg-config --cflags leeway) toy.cpp -o toy
//     ./toy ledbat 20
//
// prints the window, the queuing delay and the phase of a sender of 20 s on a link of 10 Mbit/s and 50 ms.
//
// Below, `Socket` and `Simulator` stand for what a simulator has. The part to take is `LeewayOps`: it turns the
// simulator's calls (packets acknowledged, a new congestion state) into a law's events, and hands the window back.
#include "leeway_laws.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <queue>
#include <stdexcept>
#include <string>
#include <vector>

// What the simulator keeps of a connection (ns-3: TcpSocketState).
struct SocketState {
	leeway_u32 segmentSize = 1448;
	leeway_u32 initialWindowBytes = 10 * 1448;
	leeway_u64 cwndBytes = 0;
	leeway_u64 ssthreshBytes = 0;
	leeway_u64 bytesInFlight = 0;
	leeway_u64 pacingBytesPerSecond = 0; // 0: the law asks for none
	leeway_u32 srttUs = 0;
	leeway_u32 minRttUs = 0;
};

enum class CongestionState { open, recovery, loss };

// The interface of a simulator's congestion controls (ns-3: TcpCongestionOps).
class CongestionOps {
public:
	virtual ~CongestionOps() = default;
	virtual std::string name() const = 0;
	virtual void packetsAcked(SocketState &socket, leeway_u64 nowUs, leeway_u64 bytes, leeway_u32 rttUs,
				  bool roundStart, bool windowWasLimit) = 0;
	virtual void congestionStateSet(SocketState &socket, leeway_u64 nowUs, leeway_u64 lostBytes,
					leeway_u64 sentUs, CongestionState state) = 0;
};

// Any of Leeway's laws, by name, with its default parameters.
class LeewayOps : public CongestionOps {
public:
	LeewayOps(const std::string &name, SocketState &socket)
	    : law_(find(name)), state_(words(law_.state_bytes))
	{
		std::vector<leeway_u64> params = words(law_.params_bytes);
		for (leeway_u32 i = 0; i < law_.n_params; i++)
			std::memcpy(reinterpret_cast<char *>(params.data()) + law_.params[i].offset,
				    &law_.params[i].fallback, sizeof(leeway_u32));
		const leeway_path now = path(socket);
		law_.init(state_.data(), params.data(), &now);
		publish(socket);
	}

	std::string name() const override
	{
		return law_.name;
	}

	// Window, queuing delay and phase after the last event, for traces.
	const leeway_output &output() const
	{
		return *reinterpret_cast<const leeway_output *>(state_.data());
	}

	void packetsAcked(SocketState &socket, leeway_u64 nowUs, leeway_u64 bytes, leeway_u32 rttUs,
			  bool roundStart, bool windowWasLimit) override
	{
		leeway_ack ack{};
		ack.now_us = nowUs;
		ack.acked_bytes = bytes;
		ack.prior_inflight_bytes = socket.bytesInFlight + bytes;
		ack.rtt_us = rttUs;
		ack.last_rtt_us = rttUs;
		ack.last_kind = rttUs ? LEEWAY_LAST_EXACT : LEEWAY_LAST_NONE;
		ack.round_start = roundStart;
		ack.app_limited = !windowWasLimit;
		ack.recovering = recovering_;
		const leeway_path now = path(socket);
		law_.on_ack(state_.data(), &ack, &now);
		publish(socket);
	}

	void congestionStateSet(SocketState &socket, leeway_u64 nowUs, leeway_u64 lostBytes, leeway_u64 sentUs,
				CongestionState state) override
	{
		recovering_ = state != CongestionState::open;
		if (!recovering_)
			return;
		leeway_loss loss{};
		loss.now_us = nowUs;
		loss.lost_bytes = lostBytes;
		loss.sent_us = sentUs;
		loss.kind = state == CongestionState::loss ? LEEWAY_LOSS_TIMEOUT : LEEWAY_LOSS_DUPACK;
		loss.timeouts = state == CongestionState::loss;
		const leeway_path now = path(socket);
		law_.on_loss(state_.data(), &loss, &now);
		publish(socket);
	}

private:
	static const leeway_law &find(const std::string &name)
	{
		std::string known;
		for (const leeway_law &law : leeway_laws) {
			if (name == law.name)
				return law;
			known += std::string(" ") + law.name;
		}
		throw std::invalid_argument("no law " + name + "; there are:" + known);
	}

	// Memory that is aligned as a law's state needs it.
	static std::vector<leeway_u64> words(std::size_t bytes)
	{
		return std::vector<leeway_u64>((bytes + 7) / 8);
	}

	static leeway_path path(const SocketState &socket)
	{
		leeway_path path{};
		path.mss_bytes = socket.segmentSize;
		path.initial_window_bytes = socket.initialWindowBytes;
		path.inflight_bytes = socket.bytesInFlight;
		path.srtt_us = socket.srttUs;
		path.min_rtt_us = socket.minRttUs;
		return path;
	}

	void publish(SocketState &socket) const
	{
		socket.cwndBytes = output().cwnd_q16 >> 16;
		socket.ssthreshBytes = output().ssthresh_bytes;
		socket.pacingBytesPerSecond = output().pacing_bytes_per_s;
	}

	const leeway_law &law_;
	std::vector<leeway_u64> state_; // begins with struct leeway_output
	bool recovering_ = false;
};

// Events in the order of their times (ns-3: Simulator).
class Simulator {
public:
	leeway_u64 nowUs() const
	{
		return nowUs_;
	}

	void schedule(leeway_u64 atUs, std::function<void()> what)
	{
		events_.push(Event{atUs, count_++, std::move(what)});
	}

	void runUntil(leeway_u64 endUs)
	{
		while (!events_.empty() && events_.top().atUs <= endUs) {
			Event event = events_.top();
			events_.pop();
			nowUs_ = event.atUs;
			event.what();
		}
	}

private:
	struct Event {
		leeway_u64 atUs, order;
		std::function<void()> what;
		bool operator<(const Event &other) const
		{
			return atUs != other.atUs ? atUs > other.atUs : order > other.order;
		}
	};
	std::priority_queue<Event> events_;
	leeway_u64 nowUs_ = 0, count_ = 0;
};

// A sender with unlimited data before a drop-tail queue of 100 packets. Lost data is not sent again.
class Socket {
public:
	Socket(Simulator &simulator, const std::string &law) : simulator_(simulator), ops_(law, state_)
	{
	}

	void send()
	{
		const leeway_u64 window = std::max<leeway_u64>(state_.cwndBytes, state_.segmentSize);
		while (state_.bytesInFlight + state_.segmentSize <= window) {
			const leeway_u64 sentUs = simulator_.nowUs(), number = next_++;
			const leeway_u64 waitUs = freeAtUs_ > sentUs ? freeAtUs_ - sentUs : 0;
			state_.bytesInFlight += state_.segmentSize;
			if (waitUs >= 100 * packetUs) {
				simulator_.schedule(sentUs + waitUs + pathUs,
						    [this, sentUs, number] { lost(sentUs, number); });
				continue;
			}
			freeAtUs_ = sentUs + waitUs + packetUs;
			simulator_.schedule(freeAtUs_ + pathUs,
					    [this, sentUs, number] { acked(sentUs, number); });
		}
	}

	const LeewayOps &ops() const
	{
		return ops_;
	}

	leeway_u64 deliveredBytes = 0;

private:
	static constexpr leeway_u64 packetUs = 1200, pathUs = 50000;

	void acked(leeway_u64 sentUs, leeway_u64 number)
	{
		const leeway_u32 rttUs = static_cast<leeway_u32>(simulator_.nowUs() - sentUs);
		const bool windowWasLimit = state_.bytesInFlight + 2 * state_.segmentSize > state_.cwndBytes;
		const bool roundStart = number >= roundEnd_;
		if (roundStart)
			roundEnd_ = next_;
		if (recoveryEnd_ && number >= recoveryEnd_) {
			recoveryEnd_ = 0;
			ops_.congestionStateSet(state_, simulator_.nowUs(), 0, 0, CongestionState::open);
		}
		state_.bytesInFlight -= state_.segmentSize;
		state_.srttUs = state_.srttUs ? (7 * state_.srttUs + rttUs) / 8 : rttUs;
		state_.minRttUs = state_.minRttUs ? std::min(state_.minRttUs, rttUs) : rttUs;
		deliveredBytes += state_.segmentSize;
		ops_.packetsAcked(state_, simulator_.nowUs(), state_.segmentSize, rttUs, roundStart, windowWasLimit);
		send();
	}

	void lost(leeway_u64 sentUs, leeway_u64 number)
	{
		state_.bytesInFlight -= state_.segmentSize;
		if (number >= recoveryEnd_) {
			recoveryEnd_ = next_;
			ops_.congestionStateSet(state_, simulator_.nowUs(), state_.segmentSize, sentUs,
						CongestionState::recovery);
		}
		send();
	}

	Simulator &simulator_;
	SocketState state_;
	LeewayOps ops_;
	leeway_u64 next_ = 0, roundEnd_ = 0, recoveryEnd_ = 0, freeAtUs_ = 0;
};

int main(int argc, char **argv)
{
	const int seconds = argc == 3 ? std::atoi(argv[2]) : 0;
	if (seconds <= 0) {
		std::fprintf(stderr, "usage: toy LAW SECONDS, for example: toy ledbat 20\n");
		return 2;
	}
	try {
		Simulator simulator;
		Socket socket(simulator, argv[1]);
		std::printf("%5s %10s %10s %10s %6s\n", "s", "Mbit/s", "window B", "queue ms", "phase");
		socket.send();
		leeway_u64 before = 0;
		for (leeway_u64 second = 1; second <= static_cast<leeway_u64>(seconds); second++) {
			simulator.runUntil(second * 1000000);
			const leeway_output &output = socket.ops().output();
			std::printf("%5llu %10.2f %10llu %10.1f %6u\n", static_cast<unsigned long long>(second),
				    static_cast<double>(socket.deliveredBytes - before) * 8 / 1e6,
				    static_cast<unsigned long long>(output.cwnd_q16 >> 16),
				    output.queuing_delay_us / 1000.0, output.phase);
			before = socket.deliveredBytes;
		}
	} catch (const std::exception &error) {
		std::fprintf(stderr, "toy: %s\n", error.what());
		return 2;
	}
	return 0;
}
