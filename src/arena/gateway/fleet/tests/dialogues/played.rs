//! The messages of each dialogue, and what follows from them.

use Goes::{As, But, Error, Fails, FailsBut, Ours};

/// An expected message.
pub(super) enum Goes {
    /// The message of the real orchestrator in this line.
    As(usize),
    /// The same, except for these fields.
    But(usize, &'static [&'static str]),
    /// The error in this line, and an answer with the same content.
    Fails(usize),
    /// The same, except for these fields.
    FailsBut(usize, &'static [&'static str]),
    /// An error that the real one does not send, and an answer with the same content.
    Error(&'static str),
    /// A message that the real one does not send, as shown by [`Came::sent`]; `*` is any word.
    Ours(&'static str),
}
/// A dialogue.
pub(super) struct Dialogue {
    /// Its number.
    pub number: usize,
    /// Messages sent before: dialogue and line.
    pub before: &'static [(usize, usize)],
    /// Incoming messages by line, with the messages and events that follow.
    pub steps: &'static [(usize, &'static [Goes], &'static [&'static str])],
    /// Messages of the real orchestrator that ours does not send, with the reason.
    pub never: &'static [(usize, &'static str)],
}

const TWICE: &str = "the runtime has it already; the real one sends it a second time";

pub(super) const PLAYED: [Dialogue; 16] = [
    Dialogue {
        number: 1,
        before: &[],
        steps: &[(1, &[As(2)], &[]), (3, &[As(4)], &["arrived R"])],
        never: &[],
    },
    Dialogue {
        number: 2,
        before: &[(1, 1), (1, 3)],
        steps: &[
            (
                1,
                &[As(2), Ours("control answer create M A")],
                &["sent M A R"],
            ),
            (3, &[], &["output M stdio *"]),
            (4, &[], &["ended M D R exited"]),
        ],
        never: &[],
    },
    Dialogue {
        number: 3,
        before: &[(1, 1), (1, 3)],
        steps: &[(
            1,
            &[But(2, &["data/uuid"]), Ours("control answer create M A")],
            &["sent M A R"],
        )],
        never: &[],
    },
    Dialogue {
        number: 4,
        before: &[(1, 1), (1, 3)],
        steps: &[
            (
                1,
                &[
                    Ours("control/R create M"),
                    Ours("control answer create M A"),
                ],
                &["sent M A R"],
            ),
            (3, &[Fails(4)], &["fault *"]),
            (5, &[Fails(6)], &["fault *"]),
            (7, &[Fails(8)], &["fault *"]),
            (9, &[Ours("control answer create M Q")], &["queued M Q R"]),
        ],
        never: &[
            (2, "a runtime is chosen, as the draft says"),
            (10, "both dialects are read"),
        ],
    },
    Dialogue {
        number: 5,
        before: &[(1, 1), (1, 3)],
        steps: &[(1, &[], &["left R Manager"])],
        never: &[],
    },
    Dialogue {
        number: 6,
        before: &[(0, 1)],
        steps: &[
            (
                1,
                &[As(2), Ours("control answer create M A")],
                &["sent M A R"],
            ),
            (3, &[Ours("control answer create M Q")], &["queued M Q R"]),
            (
                4,
                &[Ours("control answer create_batch")],
                &["queued M Q R", "queued M Q R"],
            ),
            (
                5,
                &[As(6), Ours("control answer delete M E")],
                &["stopping M E R"],
            ),
            (7, &[], &["output M stdio *"]),
            (
                8,
                &[But(9, &["data/uuid"])],
                &["ended M D R exited", "sent M A R"],
            ),
            (10, &[], &["output M stdio *"]),
            (
                11,
                &[But(12, &["data/uuid"])],
                &["ended M D R exited", "sent M A R"],
            ),
            (13, &[], &["output M stdio *"]),
            (
                14,
                &[But(15, &["data/uuid"])],
                &["ended M D R exited", "sent M A R"],
            ),
            (16, &[], &["output M stdio *"]),
            (17, &[], &["ended M D R exited"]),
        ],
        never: &[],
    },
    Dialogue {
        number: 7,
        before: &[],
        steps: &[
            (1, &[As(2)], &["arrived R"]),
            (
                3,
                &[As(4), Ours("control answer create M A")],
                &["sent M A R"],
            ),
            (
                5,
                &[As(6), Ours("control answer create M A")],
                &["sent M A R"],
            ),
            (
                7,
                &[],
                &[
                    "left R Deleted",
                    "lost M K R Runtime(Deleted)",
                    "lost M K R Runtime(Deleted)",
                ],
            ),
            (
                8,
                &[As(9), As(10), As(11)],
                &["arrived R", "sent M A R", "sent M A R"],
            ),
        ],
        never: &[],
    },
    Dialogue {
        number: 8,
        before: &[(7, 1), (7, 3), (7, 5)],
        steps: &[(1, &[], &["sent M A R"]), (3, &[], &["stopping M E R"])],
        never: &[(2, TWICE), (4, TWICE)],
    },
    Dialogue {
        number: 9,
        before: &[(7, 1), (7, 3), (7, 5)],
        steps: &[
            (1, &[], &["ended M D R exited"]),
            (2, &[], &["ended M D R exited"]),
            (3, &[], &[]),
        ],
        never: &[],
    },
    Dialogue {
        number: 10,
        before: &[(7, 1)],
        steps: &[
            (1, &[As(2)], &[]),
            (3, &[As(4)], &["arrived R"]),
            (
                5,
                &[As(6), Ours("control answer create M A")],
                &["sent M A R"],
            ),
            (7, &[], &["left R Manager", "lost M K R Runtime(Manager)"]),
            // A second registration of a manager, which the real one does not answer.
            (8, &[Ours("reg/* answer register * A")], &[]),
            (9, &[As(10), As(11)], &["arrived R", "sent M A R"]),
            (12, &[], &["left R Deleted"]),
            (13, &[Error("runtime is not connected")], &["fault *"]),
            (15, &[Fails(16)], &["fault *"]),
            (17, &[Fails(18)], &["fault *"]),
        ],
        never: &[(14, "nothing is sent to a runtime that is gone")],
    },
    Dialogue {
        number: 11,
        before: &[],
        steps: &[
            (1, &[As(2)], &["arrived R"]),
            (3, &[], &["sent M A R"]),
            (5, &[], &["started M A R"]),
            (6, &[], &["output M stdout *"]),
            (7, &[], &["alive R"]),
            (8, &[], &["stopping M E R"]),
            (9, &[], &["ended M D R deleted"]),
        ],
        never: &[
            (4, TWICE),
            (10, TWICE),
            (11, "an answer is nothing to complain of"),
        ],
    },
    Dialogue {
        number: 12,
        before: &[(11, 1), (0, 2)],
        steps: &[(1, &[], &["ended M D R exited"])],
        never: &[(2, "the module has ended; there is nobody to be told so")],
    },
    Dialogue {
        number: 13,
        before: &[(11, 1)],
        steps: &[
            (1, &[As(2)], &["arrived R"]),
            (3, &[], &["left R Deleted"]),
            // What the real one did with this is not in the capture.
            (
                4,
                &[
                    Ours("control/R create M"),
                    Ours("control answer create M A"),
                ],
                &["sent M A R"],
            ),
            (
                5,
                &[As(7), Ours("control answer delete M E")],
                &["stopping M E R"],
            ),
            (6, &[], &[]),
            (8, &[], &[]),
        ],
        never: &[],
    },
    Dialogue {
        number: 14,
        before: &[(0, 3)],
        // No orchestrator supported these topics.
        steps: &[
            (
                1,
                &[
                    Ours("realm/g/public/p/R create M"),
                    Ours("realm/s/public/default/p/uc1/tag1 answer create M A"),
                ],
                &["sent M A R"],
            ),
            (
                2,
                &[
                    Ours("realm/g/public/p/R delete M"),
                    Ours("realm/s/public/default/p/uc1/tag1 answer delete M E"),
                ],
                &["stopping M E R"],
            ),
            (3, &[Error("invalid Runtime Name/UUID")], &["fault *"]),
            (4, &[Error("invalid Runtime Name/UUID")], &["fault *"]),
        ],
        never: &[],
    },
    Dialogue {
        number: 15,
        before: &[(0, 4)],
        steps: &[
            (
                1,
                &[But(2, &["data/uuid"]), Ours("control answer create M A")],
                &["sent M A R"],
            ),
            (3, &[], &["ended M D R exited"]),
            (4, &[], &[]),
        ],
        never: &[],
    },
    Dialogue {
        number: 16,
        before: &[],
        steps: &[
            (1, &[But(2, DEFAULTS)], &["arrived R"]),
            (
                3,
                &[
                    But(4, OF_MODULES),
                    Ours("old/proc/control answer create M A"),
                ],
                &["sent M A R"],
            ),
            // The real one repeats the whole request.
            (5, &[FailsBut(6, &["data/data"])], &["fault *"]),
            (
                7,
                &[As(8), Ours("old/proc/control answer delete M E")],
                &["stopping M E R"],
            ),
            (9, &[As(10)], &["ended M D R exited"]),
            (11, &[But(12, DEFAULTS)], &["left R Deleted"]),
            (13, &[Error("runtime is not connected")], &["fault *"]),
            // The real one answers in its own dialect, whatever that of the request.
            (
                15,
                &[But(
                    16,
                    &[
                        "type",
                        "data/details/page_size",
                        "data/details/aot_target",
                        "data/details/max_nmodules",
                    ],
                )],
                &["arrived R"],
            ),
        ],
        never: &[(14, "modules need not bring a uuid, and the runtime is gone")],
    },
];

/// The defaults of orchestrator 1.2.8 for a runtime.
const DEFAULTS: &[&str] = &["data/details/page_size", "data/details/aot_target"];
/// And for a module.
const OF_MODULES: &[&str] = &["data/peripherals", "data/resources", "data/fault_crash"];
