//! `docker`: containers, images, networks and volumes of a Docker engine, through its socket.

mod compare;
mod containers;
mod create;
mod engine;
mod exec;
mod http;
mod human;
mod images;
mod lifecycle;
mod networks;
mod registry;
mod stream;
mod system;
mod table;
mod tarball;
mod transfer;
mod translate;

pub use compare::{
    NETWORK_IGNORED, container_networks, containers as container_changes, networks_differ,
};
pub use containers::{
    State as ContainerState, find as find_container, inspect as inspect_container,
    remove as remove_container,
};
pub use create::{Running, create_only as create_container, name_in, run_once};
pub use engine::{Engine, is_unreachable, timeout};
pub use images::{
    dependents, find as find_image, id as image_id, remove as remove_images, tags as image_tags,
};
pub use lifecycle::{
    rename_to as rename_container, signal_named as signal_container,
    start_named as start_container, stop_named as stop_container,
};
pub use networks::{
    connect, create_from as create_network, create_volume_from as create_volume, disconnect,
    find as find_network, find_volume, inspect as inspect_network, known_containers,
    members as network_members, missing as missing_networks, of as networks_of,
    remove as remove_network, remove_volume_named as remove_volume,
};
pub(super) use table::MODULE;
pub use transfer::{Building, build_image, load_image, pull_image};
pub use translate::{Rules, network as network_plan, with_hint};
