;; Writes its arguments to standard output and its environment to standard error, each in a line.
(module
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $env_sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $env (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  ;; Texts are at 65536: each NUL becomes a newline, and then they are one piece of output.
  (func $show (param $file i32) (param $size i32)
    (local $at i32)
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $at) (local.get $size)))
        (if (i32.eqz (i32.load8_u offset=65536 (local.get $at)))
          (then (i32.store8 offset=65536 (local.get $at) (i32.const 10))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $next)))
    (i32.store (i32.const 8) (i32.const 65536))
    (i32.store (i32.const 12) (local.get $size))
    (drop (call $write (local.get $file) (i32.const 8) (i32.const 1) (i32.const 16))))
  (func (export "_start")
    (drop (call $args_sizes (i32.const 0) (i32.const 4)))
    (drop (call $args (i32.const 1024) (i32.const 65536)))
    (call $show (i32.const 1) (i32.load (i32.const 4)))
    (drop (call $env_sizes (i32.const 0) (i32.const 4)))
    (drop (call $env (i32.const 1024) (i32.const 65536)))
    (call $show (i32.const 2) (i32.load (i32.const 4)))))
