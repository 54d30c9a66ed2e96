//! The send queue, in two lanes: urgent publications, and all others. Each has its own limits and keeps its order.

use super::Unsent;
use rumqttc::v5::mqttbytes::v5::Publish;
use std::collections::VecDeque;

/// Bytes of payloads that may be queued in a lane.
const LANE_BYTES: usize = 64 << 20;
/// Up to this many publications queued in the other lane are not overtaken: the last output of a module comes before
/// the message that it has ended.
const FEW: usize = 100;
/// The same limit in bytes of payloads.
const FEW_BYTES: usize = 1 << 20;

/// How urgent a publication is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Urgent: overtakes the other lane if more than a few wait there.
    First,
    /// All others.
    Rest,
}

/// A queued publication.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) publish: Publish,
    pub(super) lane: Lane,
    /// Counts up with each publication, across lanes.
    pub(super) number: u64,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Waiting>,
    bytes: usize,
}

/// Both lanes.
#[derive(Default)]
pub(super) struct Lanes {
    first: Queue,
    rest: Queue,
    last: u64,
}

impl Lanes {
    fn lane(&mut self, lane: Lane) -> &mut Queue {
        match lane {
            Lane::First => &mut self.first,
            Lane::Rest => &mut self.rest,
        }
    }

    /// Appends a publication to its lane, which may hold `most`.
    ///
    /// # Errors
    /// [`Unsent::Full`].
    pub(super) fn put(&mut self, publish: Publish, lane: Lane, most: usize) -> Result<(), Unsent> {
        let number = self.last + 1;
        let queue = self.lane(lane);
        let bytes = queue.bytes + publish.payload.len();
        if queue.items.len() >= most || bytes > LANE_BYTES {
            return Err(Unsent::Full);
        }
        queue.bytes = bytes;
        queue.items.push_back(Waiting {
            publish,
            lane,
            number,
        });
        self.last = number;
        Ok(())
    }

    /// Puts a publication that was taken back to the front of its lane, ignoring the limits. Call it for the one taken
    /// last first.
    pub(super) fn requeue(&mut self, waiting: Waiting) {
        let queue = self.lane(waiting.lane);
        queue.bytes += waiting.publish.payload.len();
        queue.items.push_front(waiting);
    }

    /// Takes the next publication to send, from lanes that have `room`.
    pub(super) fn take(&mut self, room: impl Fn(Lane) -> bool) -> Option<Waiting> {
        let lane = self.next(room)?;
        let queue = self.lane(lane);
        let waiting = queue.items.pop_front()?;
        queue.bytes -= waiting.publish.payload.len();
        Some(waiting)
    }

    fn next(&self, room: impl Fn(Lane) -> bool) -> Option<Lane> {
        let front = |queue: &Queue, lane| {
            let front = queue.items.front().filter(|_| room(lane));
            front.map(|waiting| waiting.number)
        };
        let few = self.rest.items.len() <= FEW && self.rest.bytes <= FEW_BYTES;
        match (
            front(&self.first, Lane::First),
            front(&self.rest, Lane::Rest),
        ) {
            (Some(first), Some(rest)) if few && rest < first => Some(Lane::Rest),
            (Some(_), _) => Some(Lane::First),
            (None, Some(_)) => Some(Lane::Rest),
            (None, None) => None,
        }
    }

    /// Whether both lanes are empty.
    pub(super) fn is_empty(&self) -> bool {
        self.first.items.is_empty() && self.rest.items.is_empty()
    }

    /// Publications in both lanes, and bytes of their payloads.
    pub(super) fn waiting(&self) -> (usize, usize) {
        (
            self.first.items.len() + self.rest.items.len(),
            self.first.bytes + self.rest.bytes,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rumqttc::v5::mqttbytes::QoS;

    fn publish(topic: &str, bytes: usize) -> Publish {
        Publish::new(topic, QoS::AtLeastOnce, vec![0; bytes], None)
    }

    fn topics(lanes: &mut Lanes, room: impl Fn(Lane) -> bool + Copy) -> Vec<String> {
        std::iter::from_fn(|| lanes.take(room))
            .map(|one| String::from_utf8_lossy(&one.publish.topic).into_owned())
            .collect()
    }

    #[test]
    fn what_comes_first_overtakes_many_but_not_a_few() {
        let mut lanes = Lanes::default();
        for number in 0..FEW + 50 {
            lanes
                .put(publish(&format!("rest/{number}"), 1), Lane::Rest, 1000)
                .unwrap();
        }
        for number in 0..3 {
            lanes
                .put(publish(&format!("first/{number}"), 1), Lane::First, 1000)
                .unwrap();
        }
        assert_eq!(lanes.waiting(), (FEW + 53, FEW + 53));
        let all = topics(&mut lanes, |_| true);
        assert_eq!(all[..3], ["first/0", "first/1", "first/2"]);
        let rest = (0..FEW + 50).map(|number| format!("rest/{number}"));
        assert!(all[3..].iter().cloned().eq(rest));
        assert!(lanes.is_empty() && lanes.waiting() == (0, 0));

        for (topic, lane) in [
            ("1", Lane::Rest),
            ("2", Lane::First),
            ("3", Lane::Rest),
            ("4", Lane::First),
        ] {
            lanes.put(publish(topic, 1), lane, 1000).unwrap();
        }
        assert_eq!(topics(&mut lanes, |_| true), ["1", "2", "3", "4"]);

        // Few, but large.
        lanes
            .put(publish("large", FEW_BYTES + 1), Lane::Rest, 1000)
            .unwrap();
        lanes.put(publish("first", 1), Lane::First, 1000).unwrap();
        assert_eq!(topics(&mut lanes, |_| true), ["first", "large"]);
    }

    #[test]
    fn each_lane_has_its_own_bounds() {
        let mut lanes = Lanes::default();
        for lane in [Lane::Rest, Lane::First] {
            for _ in 0..2 {
                lanes.put(publish("t", LANE_BYTES / 2), lane, 3).unwrap();
            }
            assert_eq!(lanes.put(publish("t", 1), lane, 3), Err(Unsent::Full));
            lanes.put(publish("t", 0), lane, 3).unwrap();
            assert_eq!(lanes.put(publish("t", 0), lane, 3), Err(Unsent::Full));
        }
        assert_eq!(lanes.waiting(), (6, 2 * LANE_BYTES));
        topics(&mut lanes, |_| true);
        assert_eq!(lanes.put(publish("t", 1), Lane::Rest, 3), Ok(()));
    }

    #[test]
    fn a_lane_without_room_does_not_hold_up_the_other() {
        let mut lanes = Lanes::default();
        for (topic, lane) in [("1", Lane::Rest), ("2", Lane::First), ("3", Lane::First)] {
            lanes.put(publish(topic, 1), lane, 10).unwrap();
        }
        assert_eq!(topics(&mut lanes, |lane| lane == Lane::First), ["2", "3"]);
        assert!(lanes.take(|_| false).is_none());
        assert_eq!(topics(&mut lanes, |_| true), ["1"]);
    }

    #[test]
    fn what_is_given_back_is_taken_as_before() {
        let mut lanes = Lanes::default();
        for (topic, lane) in [
            ("1", Lane::Rest),
            ("2", Lane::First),
            ("3", Lane::Rest),
            ("4", Lane::First),
        ] {
            lanes.put(publish(topic, 5), lane, 10).unwrap();
        }
        let mut taken: Vec<Waiting> = (0..3).filter_map(|_| lanes.take(|_| true)).collect();
        assert_eq!(lanes.waiting(), (1, 5));
        while let Some(one) = taken.pop() {
            lanes.requeue(one);
        }
        assert_eq!(lanes.waiting(), (4, 20));
        assert_eq!(topics(&mut lanes, |_| true), ["1", "2", "3", "4"]);
    }
}
