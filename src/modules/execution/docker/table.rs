//! The functions of `docker`.

use super::super::declare::{Arg, Function, Module, args};
use super::{
    compare, containers, create, exec, images, lifecycle, networks, registry, system, transfer,
};

const NAME: &[Arg] = args![name];
const PAIR: &[Arg] = args![first, second];
const RUN: &[Arg] = args![
    name,
    cmd,
    exec_driver = None,
    stdin = None,
    python_shell = True,
    output_loglevel = "debug",
    use_vt = False,
    ignore_retcode = False,
    keep_env = None
];
const ARCHIVE: &[Arg] = args![
    name,
    path,
    overwrite = False,
    makedirs = False,
    compression = None
];
const TRANSFER: &[Arg] = args![
    image,
    insecure_registry = False,
    api_response = False,
    client_timeout = { 60 }
];

/// A function about something with a name.
const fn of_name(
    name: &'static str,
    run: fn(&mut super::super::Call<'_>) -> super::super::declare::Result,
    doc: &'static str,
) -> Function {
    Function::new(name, run, doc).args(NAME)
}

const FUNCTIONS: &[Function] = &[
    Function::new(
        "ps",
        containers::ps,
        "The containers that run, or all of them, by id.",
    )
    .args(args![filters = None])
    .keywords(),
    Function::new(
        "list_containers",
        containers::list_containers,
        "The names of the containers.",
    )
    .keywords(),
    of_name(
        "inspect",
        containers::inspect_any,
        "What the engine tells about a container, or else an image, a volume or a network.",
    ),
    of_name(
        "inspect_container",
        containers::inspect_container,
        "What the engine tells about a container.",
    ),
    of_name(
        "inspect_image",
        images::inspect_image,
        "What the engine tells about an image.",
    ),
    Function::new(
        "inspect_network",
        networks::inspect_network,
        "What the engine tells about a network.",
    )
    .args(args![network_id]),
    of_name(
        "inspect_volume",
        networks::inspect_volume,
        "What the engine tells about a volume.",
    ),
    of_name(
        "state",
        containers::state_of,
        "Whether a container is running, paused or stopped.",
    ),
    of_name(
        "exists",
        containers::exists,
        "Whether there is a container.",
    ),
    of_name(
        "pid",
        containers::pid,
        "The number of a container's first process.",
    ),
    of_name(
        "diff",
        containers::diff,
        "Files that have changed in a container.",
    ),
    of_name("top", containers::top, "The processes of a container."),
    Function::new(
        "port",
        containers::port,
        "The ports of a container and where they are on the host.",
    )
    .args(args![name, private_port = None]),
    of_name("logs", containers::logs, "What a container has written.").keywords(),
    Function::new("create", create::create, "Creates a container.")
        .args(args![
            image,
            name = None,
            start = False,
            skip_translate = None,
            ignore_collisions = False,
            validate_ip_addrs = True,
            client_timeout = { 60 }
        ])
        .keywords(),
    Function::new(
        "run_container",
        create::run_container,
        "Creates a container, runs it and returns what it has written.",
    )
    .args(args![
        image,
        name = None,
        skip_translate = None,
        ignore_collisions = False,
        validate_ip_addrs = True,
        client_timeout = { 60 },
        bg = False,
        replace = False,
        force = False,
        networks = None
    ])
    .keywords(),
    of_name("start", lifecycle::start, "Starts a container."),
    Function::new("stop", lifecycle::stop, "Stops a container.")
        .args(args![name, timeout = None])
        .keywords(),
    Function::new("restart", lifecycle::restart, "Restarts a container.")
        .args(args![name, timeout = { 10 }]),
    of_name("kill", lifecycle::kill, "Ends a container at once."),
    Function::new(
        "signal",
        lifecycle::signal,
        "Sends a signal to a container.",
    )
    .args(args![name, signal]),
    of_name("pause", lifecycle::pause, "Pauses a container."),
    of_name("freeze", lifecycle::pause, "The same as docker.pause."),
    of_name(
        "unpause",
        lifecycle::unpause,
        "Lets a paused container go on.",
    ),
    of_name(
        "unfreeze",
        lifecycle::unpause,
        "The same as docker.unpause.",
    ),
    Function::new("rm", lifecycle::rm, "Removes a container.")
        .args(args![name, force = False, volumes = False])
        .keywords(),
    Function::new(
        "rename",
        lifecycle::rename,
        "Gives a container another name.",
    )
    .args(args![name, new_name]),
    Function::new(
        "wait",
        lifecycle::wait,
        "Waits until a container has ended.",
    )
    .args(args![
        name,
        ignore_already_stopped = False,
        fail_on_exit_status = False
    ]),
    Function::new(
        "commit",
        containers::commit,
        "Makes an image of a container.",
    )
    .args(args![
        name,
        repository,
        tag = "latest",
        message = None,
        author = None
    ]),
    Function::new(
        "run",
        exec::run_both,
        "Runs a command in a container; returns its error output and output.",
    )
    .args(RUN),
    Function::new(
        "run_all",
        exec::run_all,
        "Runs a command in a container; returns its code and outputs.",
    )
    .args(RUN),
    Function::new(
        "run_stdout",
        exec::run_stdout,
        "Runs a command in a container; returns its output.",
    )
    .args(RUN),
    Function::new(
        "run_stderr",
        exec::run_stderr,
        "Runs a command in a container; returns its error output.",
    )
    .args(RUN),
    Function::new(
        "retcode",
        exec::retcode,
        "Runs a command in a container; returns its code.",
    )
    .args(RUN),
    Function::new("images", images::images, "The images by id.")
        .args(args![verbose = False])
        .keywords(),
    Function::new("list_tags", images::list_tags, "The names of all images."),
    of_name(
        "resolve_image_id",
        images::resolve_image_id,
        "The id of an image; false if there is none.",
    ),
    of_name(
        "resolve_tag",
        images::resolve_tag,
        "The first name of an image; false if there is none.",
    )
    .keywords(),
    Function::new("rmi", images::rmi, "Removes images.")
        .varargs()
        .keywords(),
    Function::new("tag", images::tag, "Gives an image another name.").args(args![
        name,
        repository,
        tag = "latest",
        force = False
    ]),
    Function::new("history", images::history, "How an image was made.")
        .args(args![name, quiet = False]),
    of_name("layers", images::layers, "The ids of an image's layers."),
    of_name(
        "depends",
        images::depends,
        "The containers and images that depend on an image.",
    ),
    Function::new(
        "dangling",
        images::dangling,
        "Images without names that no other one needs.",
    )
    .args(args![prune = False, force = False]),
    Function::new("pull", transfer::pull, "Fetches an image from a registry.").args(TRANSFER),
    Function::new("push", transfer::push, "Sends an image to a registry.").args(TRANSFER),
    Function::new(
        "build",
        transfer::build,
        "Builds an image from a directory with a Dockerfile.",
    )
    .args(args![
        path = None,
        repository = None,
        tag = None,
        cache = True,
        rm = True,
        api_response = False,
        fileobj = None,
        dockerfile = None,
        buildargs = None
    ]),
    Function::new("load", transfer::load, "Loads images from an archive.").args(args![
        path,
        repository = None,
        tag = None
    ]),
    Function::new(
        "import",
        transfer::import,
        "Makes an image of an archive of files.",
    )
    .inner("import_")
    .args(args![
        source,
        repository,
        tag = "latest",
        api_response = False
    ]),
    Function::new("save", transfer::save, "Writes an image to an archive.")
        .args(ARCHIVE)
        .keywords(),
    Function::new(
        "export",
        transfer::export,
        "Writes the files of a container to an archive.",
    )
    .args(ARCHIVE)
    .keywords(),
    Function::new(
        "search",
        registry::search,
        "Images of the Docker Hub by a word.",
    )
    .args(args![name, official = False, trusted = False]),
    Function::new(
        "login",
        registry::login,
        "Logs in to registries of the option docker-registries.",
    )
    .varargs(),
    Function::new(
        "logout",
        registry::logout,
        "Forgets accounts of registries.",
    )
    .varargs(),
    Function::new("networks", networks::list, "The networks.")
        .args(args![names = None, ids = None]),
    Function::new("create_network", networks::create, "Creates a network.")
        .args(args![
            name,
            skip_translate = None,
            ignore_collisions = False,
            validate_ip_addrs = True,
            client_timeout = { 60 }
        ])
        .keywords(),
    Function::new(
        "remove_network",
        networks::remove_network,
        "Removes a network.",
    )
    .args(args![network_id]),
    Function::new(
        "connect_container_to_network",
        networks::connect_container,
        "Connects a container to a network.",
    )
    .args(args![container, net_id])
    .keywords(),
    Function::new(
        "disconnect_container_from_network",
        networks::disconnect_container,
        "Takes a container out of a network.",
    )
    .args(args![container, network_id]),
    Function::new(
        "disconnect_all_containers_from_network",
        networks::disconnect_all,
        "Takes all containers out of a network.",
    )
    .args(args![network_id]),
    Function::new(
        "connected",
        networks::connected,
        "The containers in a network.",
    )
    .args(args![name, verbose = False]),
    Function::new("volumes", networks::volumes, "The volumes.").args(args![filters = None]),
    Function::new(
        "create_volume",
        networks::create_volume,
        "Creates a volume.",
    )
    .args(args![name, driver = None, driver_opts = None]),
    of_name(
        "remove_volume",
        networks::remove_volume,
        "Removes a volume.",
    ),
    Function::new(
        "compare_containers",
        compare::compare_containers,
        "How the configuration of two containers differs.",
    )
    .args(args![first, second, ignore = None]),
    Function::new(
        "compare_container",
        compare::compare_containers,
        "The same as docker.compare_containers.",
    )
    .args(args![first, second, ignore = None]),
    Function::new(
        "compare_container_networks",
        compare::compare_container_networks,
        "How the networks of two containers differ.",
    )
    .args(PAIR),
    Function::new(
        "compare_networks",
        compare::compare_networks,
        "How two networks differ.",
    )
    .args(args![first, second, ignore = "Name,Id,Created,Containers"]),
    Function::new("version", system::version, "The engine's version."),
    Function::new(
        "info",
        system::info,
        "What the engine knows of itself and its host.",
    ),
    Function::new("prune", system::prune, "Removes what is not used.")
        .args(args![
            containers = False,
            networks = False,
            images = False,
            build = False,
            volumes = False,
            system = None
        ])
        .keywords(),
];

pub(in crate::execution) const MODULE: Module = Module {
    name: "docker",
    functions: FUNCTIONS,
};
