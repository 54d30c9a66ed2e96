//! Functions that run on minions, from the request to the replies.

use super::*;

const ACL: &str = "publisher_acl:\n  'choria=alice.mcollective':\n    - test.*\n    - 'G@os:Arch':\n      - pkg.*\n";

#[test]
fn a_function_runs_as_one_job_for_all_nodes() {
    let mut rig = Rig::new(ACL);
    let (acts, order) = rig.publication(&[("function", "test.echo"), ("args", "[\"hi\"]")]);
    let order = order.unwrap();
    assert_eq!(acts.len(), 1);
    assert_eq!(order.user, "choria=alice.mcollective");
    assert_eq!((order.fun.as_str(), order.arg.len()), ("test.echo", 1));
    assert_eq!(order.minions, ALL);
    assert!(rig.answers().is_empty());

    let news = |ids: &[&str]| News::Published(order.jid.clone(), texts(ids));
    assert!(rig.inward.handle_news(news(&["node3.example"])).is_empty());
    let answers = rig.answers();
    assert_eq!((answers.len(), code(&answers[0])), (1, 5));
    assert_eq!(answers[0].reply.sender.as_str(), "node3.example");

    let returned = |id: &str| {
        let load = halite_wire::map! {"return" => "hi", "retcode" => 0, "success" => true};
        News::Returned(order.jid.clone(), id.parse().unwrap(), load)
    };
    rig.inward.handle_news(returned("node2.example"));
    rig.inward.handle_news(returned("node2.example"));
    rig.inward.handle_news(returned("stranger"));
    let answers = rig.answers();
    assert_eq!(answers.len(), 1);
    assert_eq!(part(&answers[0], "return"), Some(&"\"hi\"".into()));
    assert_eq!(part(&answers[0], "jid"), Some(&order.jid.as_str().into()));
    assert_eq!(rig.inward.counters().int("inward_running"), Some(1));
    let acts = rig.inward.handle_news(returned("node1.example"));
    assert_eq!(acts, [Act::Do(Task::Forget(order.jid.clone()))]);
    assert_eq!(rig.answers().len(), 1);
    assert_eq!(rig.inward.counters().int("inward_running"), Some(0));
}

/// Nobody sees the outcome of such a request, so nothing may come of it.
#[test]
fn a_request_whose_replies_may_not_be_sent_runs_nothing() {
    let mut rig = Rig::new(ACL);
    for reply_to in [
        "mcollective.broadcast.agent.shell",
        "mcollective.node.node1.example",
        "/reply-queue/x",
        "$SYS.REQ.x",
        "choria.federation.a.collective",
    ] {
        let request = rig.request("halite", rpc("run", &[("function", "test.ping")]));
        let place = Place::Broadcast(request.collective.clone(), request.agent.clone());
        let packet = Packet {
            reply_to: Some(reply_to.to_owned()),
            ..packet()
        };
        let heard = rig
            .inward
            .handle_request(Some(&place), &request, Form::Psk, &packet, rig.now);
        let Err(Refused::Malformed(why)) = heard else {
            panic!("{reply_to}: {heard:?}");
        };
        assert!(why.contains("reply-to"), "{why}");
        assert!(rig.answers().is_empty());
    }
    assert_eq!(rig.inward.counters().int("inward_jobs"), Some(0));
    let (_, order) = rig.publication(&[("function", "test.ping")]);
    assert!(order.is_some());
}

#[test]
fn messages_to_single_nodes_are_gathered_to_one_job() {
    let mut rig = Rig::new(ACL);
    let mut request = rig.request("halite", rpc("run", &[("function", "test.ping")]));
    let ask = |rig: &mut Rig, request: &Request, node: &str| {
        let place = Place::Node("mcollective".parse().unwrap(), node.parse().unwrap());
        let heard = rig
            .inward
            .handle_request(Some(&place), request, Form::Psk, &packet(), rig.now);
        assert_eq!(heard, Ok(Vec::new()));
    };
    ask(&mut rig, &request, ALL[1]);
    ask(&mut rig, &request, ALL[0]);
    // Another function with the same request id is a separate job, and so is another caller's.
    let mut other = request.clone();
    other.body = rpc("run", &[("function", "test.version")]);
    ask(&mut rig, &other, ALL[2]);
    request.id = "e".repeat(32).parse().unwrap();
    ask(&mut rig, &request, ALL[2]);
    assert!(rig.inward.tick(rig.now).is_empty());
    let acts = rig.inward.tick(rig.now.after(Duration::from_millis(50)));
    let orders: Vec<Order> = acts
        .into_iter()
        .map(|act| match act {
            Act::Do(Task::Publish(order)) => order,
            other => panic!("{other:?}"),
        })
        .collect();
    let minions: Vec<_> = orders.iter().map(|order| order.minions.clone()).collect();
    assert_eq!(
        minions,
        [texts(&[ALL[1], ALL[0]]), texts(&[ALL[2]]), texts(&[ALL[2]])]
    );
    assert_eq!(rig.inward.counters().int("inward_jobs"), Some(3));
    for id in [ALL[0], ALL[1]] {
        let load = halite_wire::map! {"return" => true, "retcode" => 0, "success" => true};
        rig.inward.handle_news(News::Returned(
            orders[0].jid.clone(),
            id.parse().unwrap(),
            load,
        ));
    }
    let answers = rig.answers();
    assert_eq!(answers.iter().map(code).collect::<Vec<_>>(), [0, 0]);
    assert!(
        rig.inward
            .tick(rig.now.after(Duration::from_millis(60)))
            .is_empty()
    );
}

#[test]
fn nodes_that_do_not_return_are_looked_up_then_said() {
    let mut rig = Rig::new(ACL);
    let (_, order) = rig.publication(&[("function", "test.sleep")]);
    let jid = order.unwrap().jid;
    let at = |rig: &mut Rig, seconds: u64| {
        let now = rig.now.after(Duration::from_secs(seconds));
        rig.inward.tick(now)
    };
    assert!(at(&mut rig, 49).is_empty());
    assert_eq!(at(&mut rig, 50), [Act::Do(Task::Look(jid.clone()))]);
    assert!(at(&mut rig, 51).is_empty() && rig.answers().is_empty());
    let load = halite_wire::map! {"return" => 1, "retcode" => 0, "success" => true};
    let found = vec![("node1.example".parse().unwrap(), load)];
    let acts = rig.inward.handle_news(News::Looked(jid.clone(), found));
    assert_eq!(acts, [Act::Do(Task::Forget(jid.clone()))]);
    let answers = rig.answers();
    let codes: Vec<i64> = answers.iter().map(code).collect();
    assert_eq!(codes, [0, 5, 5]);
    assert!(words(&answers[1]).contains("no return within 50 seconds"));
    assert_eq!(part(&answers[1], "jid"), Some(&jid.as_str().into()));
    assert_eq!(part(&answers[1], "return"), Some(&Datum::Nil));
    assert_eq!(rig.inward.counters().int("inward_silent"), Some(2));

    // If the job cache does not reply either, the timeout ends the job.
    let (_, order) = rig.publication(&[("function", "test.sleep")]);
    let jid = order.unwrap().jid;
    at(&mut rig, 50);
    assert_eq!(at(&mut rig, 53), [Act::Do(Task::Forget(jid))]);
    assert_eq!(rig.answers().len(), 3);
}

#[test]
fn what_the_acl_does_not_say_is_refused_with_words() {
    let mut rig = Rig::new(ACL);
    let (acts, order) = rig.publication(&[("function", "cmd.run"), ("args", "[\"id\"]")]);
    assert!(order.is_none());
    let [
        Act::Do(Task::Refusal {
            caller,
            fun,
            minions,
            ..
        }),
    ] = &acts[..]
    else {
        panic!("{acts:?}");
    };
    assert_eq!(
        (caller.as_str(), fun.as_str()),
        ("choria=alice.mcollective", "cmd.run")
    );
    assert_eq!(minions.len(), 3);
    let answers = rig.answers();
    assert_eq!(answers.len(), 3);
    for answer in &answers {
        assert_eq!((code(answer), words(answer)), (1, "not authorised"));
        assert_eq!(part(answer, "jid"), Some(&Datum::Nil));
    }
    // Some nodes are allowed.
    let (_, order) = rig.publication(&[("function", "pkg.version")]);
    assert_eq!(order.unwrap().minions, ["node3.example"]);
    assert_eq!(rig.answers().len(), 2);
    assert_eq!(rig.inward.counters().int("inward_denied"), Some(5));

    let mut nobody = Rig::new("publisher_acl:\n  '*': ['.*']\n  alice: ['.*']\n");
    assert!(nobody.publication(&[("function", "test.ping")]).1.is_none());
    assert_eq!(nobody.answers().len(), 3);
}

#[test]
fn jobs_that_cannot_be_published_are_said() {
    let mut rig = Rig::new(ACL);
    let (_, order) = rig.publication(&[("function", "test.ping")]);
    let jid = order.unwrap().jid;
    let acts = rig
        .inward
        .handle_news(News::Unpublished(jid.clone(), "no master".into()));
    assert_eq!(acts, [Act::Do(Task::Forget(jid))]);
    let answers = rig.answers();
    assert_eq!(answers.len(), 3);
    assert!(words(&answers[0]).contains("no master") && code(&answers[0]) == 5);

    // Wrong inputs cost no job.
    let (acts, order) = rig.publication(&[("function", "nonsense")]);
    assert!(acts.is_empty() && order.is_none());
    assert_eq!(
        rig.answers().iter().map(code).collect::<Vec<_>>(),
        [4, 4, 4]
    );

    // Fire and forget.
    let mut body = rpc("run", &[("function", "test.ping")]);
    if let Datum::Hash(parts) = &mut body
        && let Datum::Hash(data) = &mut parts[1].1
    {
        data.push((Datum::symbol("process_results"), Datum::Bool(false)));
    }
    let request = rig.request("halite", body);
    let acts = rig.heard(&request, Form::Psk).unwrap();
    assert!(matches!(
        &acts[..],
        [Act::Do(Task::Publish(_)), Act::Do(Task::Forget(_))]
    ));
    assert_eq!(rig.inward.counters().int("inward_running"), Some(0));
    assert!(rig.answers().is_empty());
}

#[test]
fn jobs_are_bounded() {
    let mut rig = Rig::new(ACL);
    for _ in 0..1000 {
        assert!(rig.publication(&[("function", "test.sleep")]).1.is_some());
    }
    assert!(rig.publication(&[("function", "test.sleep")]).1.is_none());
    let answers = rig.answers();
    assert_eq!(answers.len(), 3);
    assert!(words(&answers[0]).contains("too many jobs"));
}

#[test]
fn an_answer_too_large_is_replaced_by_words() {
    let mut rig = Rig::new(ACL);
    let (_, order) = rig.publication(&[("function", "test.ping")]);
    let jid = order.unwrap().jid;
    let load =
        halite_wire::map! {"return" => "x".repeat(2_000_000), "retcode" => 0, "success" => true};
    rig.inward.handle_news(News::Returned(
        jid.clone(),
        "node1.example".parse().unwrap(),
        load,
    ));
    let answer = rig.answers().remove(0);
    let small = rig.inward.too_large(answer, 1_048_576);
    assert_eq!(code(&small), 5);
    assert!(words(&small).contains("1048576 bytes") && words(&small).contains(jid.as_str()));
    assert_eq!(small.to, "mcollective.reply.client.1");
}
