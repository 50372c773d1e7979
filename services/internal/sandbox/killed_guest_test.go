//go:build guest

package sandbox

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/cgroup"
	"github.com/evalhost/evalhost/services/internal/sandbox/hoststate"
)

// victimOf tells this binary to be the victim of the instance it names, instead of a test.
const victimOf = "EVALHOST_TEST_VICTIM"

func TestMain(m *testing.M) {
	if instance := os.Getenv(victimOf); instance != "" {
		fmt.Fprintln(os.Stderr, victim(instance))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// A process that uses the sandbox is killed with SIGKILL at random moments of its work. The next start of the same instance
// removes everything it left, and a neighbour's running container, home and scratch stay what they were.
func TestAKilledOwnerIsSweptAndNobodyElse(t *testing.T) {
	onOneDriver(t, "it is long, and TestASweepFindsWhatADeadOwnerLeft shows the sweep on each driver")
	times := 10
	if n, err := strconv.Atoi(told("EVALHOST_TEST_KILLS", "10")); err == nil {
		times = n
	}
	seed := uint64(time.Now().UnixNano())
	if n, err := strconv.ParseUint(told("EVALHOST_TEST_SEED", ""), 10, 64); err == nil {
		seed = n
	}
	t.Logf("EVALHOST_TEST_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	g := onAHost(t) // the neighbour
	waiting, err := g.job.Prepare(t.Context(), g.actor("exit", "8"))
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	before, err := hoststate.Take(t.Context(), g.eng, scratch(), DefaultLocks)
	if err != nil {
		t.Fatal(err)
	}

	instance := "victim-" + strconv.FormatUint(seed%1e6, 10)
	// How long one round of the victim's work takes here bounds the moments.
	round := 12 * time.Second
	swept := 0
	for i := range times {
		at := time.Duration(random.Int64N(int64(round)))
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), victimOf+"="+instance)
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "at work\n" {
			t.Fatalf("the victim said %q, %v", line, err)
		}
		time.Sleep(at)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("the victim ended by itself: %v", err)
		}
		cfg := g.box.cfg
		cfg.Instance = instance
		left := len(mustGlob(t, filepath.Join(scratch(), cgroup.Safe(instance), "job-*", "run-*")))
		next, err := Open(t.Context(), g.eng, cfg) // sweeps
		if err != nil {
			t.Fatal(err)
		}
		if n, err := next.Sweep(t.Context()); n != 0 || err != nil {
			t.Errorf("kill %d after %v: a second sweep finds %d, %v", i, at, n, err)
		}
		if err := next.Close(context.Background()); err != nil {
			t.Error(err)
		}
		changed, err := hoststate.Settled(t.Context(), g.eng, before, patience, scratch(), DefaultLocks)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changed {
			t.Errorf("kill %d after %v: %s", i, at, c)
		}
		if left > 0 {
			swept++
		}
		t.Logf("kill %d after %v: it had %d runs under way", i, at.Round(time.Millisecond), left)
	}
	if swept == 0 {
		t.Error("no kill met a run under way; the test proves nothing")
	}
	o, err := waiting.Go(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended(t, o, 8) // the neighbour's container lived through all of it
}

func mustGlob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
