// Command burstlet-task runs inside the tasks that the ecs backend starts, beside
// and around the containers of the pod: see package intask. It is one static file.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/burstlet/burstlet/backend/ecs/intask"
)

func main() { os.Exit(run()) }

func run() int {
	logger := log.New(os.Stderr, "burstlet-task: ", 0)
	ctx := context.Background()
	if intask.UntilSignal(os.Args[1:]) {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
		defer stop()
	}
	code, err := intask.Task{
		Env: os.Getenv, Environ: os.Environ(), Log: logger,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	}.Run(ctx, os.Args[1:])
	if err != nil {
		logger.Print(err)
	}
	return code
}
