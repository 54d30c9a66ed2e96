;; Waits for the channel `in` and for 20 ms, again and again: writes `tick` when the time is over, and `message` when there is one,
;; which it then reads; exits at the end of the channel, with 9.
(module
  (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 100) "in")
  (data (i32.const 120) "tick\n")
  (data (i32.const 130) "message\n")
  (func $check (param $errno i32)
    (if (local.get $errno) (then (call $exit (local.get $errno)))))
  (func $say (param $at i32) (param $len i32)
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (local.get $len))
    (call $check (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
  (func (export "_start")
    (call $check (call $open (i32.const 3) (i32.const 0) (i32.const 100) (i32.const 2) (i32.const 0)
      (i64.const 2) (i64.const 0) (i32.const 4) (i32.const 200)))
    ;; Two subscriptions at 256: the clock, and to read.
    (i32.store (i32.const 272) (i32.const 1))
    (i64.store (i32.const 280) (i64.const 20000000))
    (i32.store8 (i32.const 312) (i32.const 1))
    (i32.store (i32.const 320) (i32.load (i32.const 200)))
    (loop $next
      (call $check (call $poll (i32.const 256) (i32.const 512) (i32.const 2) (i32.const 8)))
      ;; The kind of the first event.
      (if (i32.load8_u (i32.const 522))
        (then
          (i32.store (i32.const 0) (i32.const 1024))
          (i32.store (i32.const 4) (i32.const 1000))
          (call $check (call $read (i32.load (i32.const 200)) (i32.const 0) (i32.const 1) (i32.const 8)))
          (if (i32.eqz (i32.load (i32.const 8))) (then (call $exit (i32.const 9))))
          (call $say (i32.const 130) (i32.const 8)))
        (else (call $say (i32.const 120) (i32.const 5))))
      (br $next))))
