//! The meaning of the tables' headings, for the report page.

/// A sentence about the metric with this key; `None` if no table shows the metric.
pub fn about(key: &str) -> Option<&'static str> {
    Some(match key {
        "harm_throughput" => {
            "Part of its rate that the group loses because the background is there (1 - with / without)."
        }
        "harm_delay" => {
            "Part of its delay that comes from the background (1 - without / with): 50 % means twice the delay."
        }
        "harm_completion" => {
            "Part of the time of its transfers that comes from the background (1 - without / with): 50 % means twice as long."
        }
        "capacity_bps" => "Rate of the link, as the mean over the window.",
        "utilisation" => "Part of the capacity that carried packets.",
        "loss" => "Packets dropped, as a part of those that arrived (links) or were sent (flows).",
        "marked" => "Packets that the queue marked as having met congestion (ECN).",
        "queue_mean_pkt" => "Packets that wait in the queue, on average over time.",
        "queue_fill" => "D_Q: mean queue as a part of the buffer.",
        "delay_p50_s" => "Time in the queue: half of the packets wait for less.",
        "delay_p95_s" => "Time in the queue: 95 % of the packets wait for less.",
        "throughput_bps" => "Bits of the group's packets that arrive per second, headers included.",
        "share" => "Part of what all flows together get.",
        "jain" => "Jain's index of fairness among the group's flows: 1 is equal, 1/n is all to one of n.",
        "retransmitted" => "Segments sent again.",
        "timeouts" => {
            "Retransmission timeouts (RFC 6298): no acknowledgement came in time, and the flow sent a segment again."
        }
        "cwnd_mean_pkt" => "Congestion window: packets that a flow may have in flight, on average over time.",
        "rtt_p50_s" => "Round-trip time as senders measure it: half of the samples are below.",
        "rtt_p95_s" => "Round-trip time as senders measure it: 95 % of the samples are below.",
        "completed" => "Transfers, pages or frames that were finished.",
        "completion_mean_s" => "How long a transfer, a page or a frame takes, on average.",
        "completion_p95_s" => "How long a transfer, a page or a frame takes: 95 % take less.",
        "mos" => "Mean opinion score of a voice call (ITU-T G.107): 1 is unusable, 4.5 is perfect.",
        "share_ratio" => "Bytes that a peer sent over bytes that it received, on average over peers.",
        "served_share" => "Part of the time in which a peer wanted data from a neighbour and was served.",
        "unfinished" => "Peers that did not get the file.",
        "spare_use" => {
            "Part of the spare capacity that the background takes. Above 100 % it takes capacity from the others."
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::columns::{GROUP, HARM, LINK, Shown};

    #[test]
    fn every_heading_of_a_table_is_explained() {
        let links = LINK.iter().map(|column| (column.key, column.shown));
        let groups = GROUP.iter().map(|column| (column.key, column.shown));
        let harm = HARM.iter().map(|&(key, ..)| (key, Shown::Always));
        for (key, _) in links.chain(groups).chain(harm).filter(|&(_, shown)| shown != Shown::Never) {
            assert!(about(key).is_some_and(|text| text.ends_with('.')), "{key}");
        }
    }
}
