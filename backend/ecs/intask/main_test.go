package intask

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"
)

// TestMain is the program itself where it is started as such, so that processes of
// tests are this code, with the race detector when the tests have it.
func TestMain(m *testing.M) {
	commands := []string{CommandSupervise, CommandEnter, CommandHealth, CommandAgent, CommandMaterialize, CommandSession}
	if len(os.Args) > 1 && slices.Contains(commands, os.Args[1]) {
		os.Exit(asProgram())
	}
	// They wait, they do not compute; -parallel on the command line still wins.
	if err := flag.Set("test.parallel", "8"); err != nil {
		log.Fatal(err)
	}
	os.Exit(m.Run())
}

// Where the program finds what is not the machine's own.
const (
	testRun     = EnvPrefix + "TEST_RUN"
	testEtc     = EnvPrefix + "TEST_ETC"
	testBin     = EnvPrefix + "TEST_BIN"
	testVolumes = EnvPrefix + "TEST_VOLUMES"
	testRole    = EnvPrefix + "TEST_ROLE"
)

func asProgram() int {
	ctx := context.Background()
	if UntilSignal(os.Args[1:]) {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGTERM)
		defer stop()
	}
	logger := log.New(os.Stderr, "burstlet-task: ", 0)
	code, err := Task{
		Env: os.Getenv, Environ: os.Environ(), Log: logger,
		RunDir: os.Getenv(testRun), Etc: os.Getenv(testEtc), Bin: os.Getenv(testBin), Volumes: os.Getenv(testVolumes),
		CredentialsHost: os.Getenv(testRole),
		Stdin:           os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	}.Run(ctx, os.Args[1:])
	if err != nil {
		logger.Print(err)
	}
	return code
}
