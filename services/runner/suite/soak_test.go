//go:build guest

package suite

import (
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/refserver"
)

// soakOnly skips what repeats or waits, unless a soak runs.
func soakOnly(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("EVALHOST_TEST_SOAK") == "" && os.Getenv("EVALHOST_TEST_EVERYTHING") == "" {
		t.Skipf("%s: left to make soak (EVALHOST_TEST_SOAK or EVALHOST_TEST_EVERYTHING)", why)
	}
}

// holding is what a daemon holds of its machine.
type holding struct {
	memory, descriptors, threads, files int // memory is the resident set, in KiB
}

// holds looks at a daemon that is idle.
func (d *daemon) holds() (h holding) {
	t := d.s.t
	t.Helper()
	proc := filepath.Join("/proc", strconv.Itoa(d.proc.cmd.Process.Pid))
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	must(t, err)
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 {
			switch n, _ := strconv.Atoi(fields[1]); fields[0] {
			case "VmRSS:":
				h.memory = n
			case "Threads:":
				h.threads = n
			}
		}
	}
	open, err := os.ReadDir(filepath.Join(proc, "fd"))
	must(t, err)
	h.descriptors = len(open)
	for _, dir := range []string{d.dir, scratch} {
		must(t, filepath.WalkDir(dir, func(string, fs.DirEntry, error) error { h.files++; return nil }))
	}
	if h.memory == 0 || h.threads == 0 {
		t.Fatalf("%s says nothing of memory or threads", proc)
	}
	return h
}

// Fifty jobs through real containers leave memory, descriptors, threads and files as they were after the first five.
func TestFiftyJobsLeaveADaemonAsItWas(t *testing.T) {
	soakOnly(t, "fifty jobs take ten minutes")
	s := newStage(t)
	d := s.daemon()
	d.run()
	// So large that a daemon that kept every source would be seen to.
	padding := "/* " + strings.Repeat("x", 256<<10) + " */\n"
	judge := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			source, verdict, score := adds, "Accepted", 100.0
			switch i % 3 {
			case 1:
				source, verdict, score = wrong, "Wrong answer", 40
			case 2:
				source, verdict, score = broken, "Compilation error", 0
			}
			j := s.judged(s.submit(source+padding), verdict, score)
			s.once(j)
			if j.Deliveries != 1 {
				t.Errorf("job %d took %d deliveries", i, j.Deliveries)
			}
		}
		time.Sleep(2 * time.Second) // for what ends after an answer
	}
	judge(0, 5)
	before, began := d.holds(), time.Now()
	judge(5, 50)
	after := d.holds()
	t.Logf("45 jobs in %v: resident %d -> %d KiB, descriptors %d -> %d, threads %d -> %d, files %d -> %d", time.Since(began).Round(time.Second),
		before.memory, after.memory, before.descriptors, after.descriptors, before.threads, after.threads, before.files, after.files)
	const spare = 6 // connections and threads of the runtime come and go
	if after.descriptors > before.descriptors+spare || after.threads > before.threads+spare || after.files > before.files || after.memory > before.memory+8<<10 {
		t.Errorf("something grows: %+v, then %+v", before, after)
	}
	if n := s.downloads(s.problem.PackageID); n != 1 {
		t.Errorf("the package was downloaded %d times", n)
	}
	d.stop()
}

// The Server is gone for two minutes, by the wall clock and with its port closed, from the first test on: the answer is kept,
// and delivered when it is back.
func TestAServerThatIsGoneForTwoRealMinutesCostsNoJob(t *testing.T) {
	soakOnly(t, "two real minutes")
	s := newStage(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := listener.Addr().String()
	serve := func(l net.Listener) *http.Server {
		web := &http.Server{Handler: s.Server}
		go func() { _ = web.Serve(l) }()
		return web
	}
	web := serve(listener)
	defer func() { _ = web.Close() }()
	d := s.daemon(fmt.Sprintf("AJ_Server__BaseUrl=http://%s%s", address, refserver.Prefix))
	p := d.run()
	j := s.submit(adds)
	d.until("test 1a, 1 of 2")
	must(t, web.Close()) // the port and every connection
	gone := time.Now()
	time.Sleep(2 * time.Minute)
	if got := s.job(j.ID); got.Result != nil {
		t.Fatal("the Server was not gone, so this shows nothing")
	}
	listener, err = net.Listen("tcp", address)
	must(t, err)
	web = serve(listener)
	got := s.judged(j, "Accepted", 100)
	s.once(got)
	d.fed(gone, time.Now())
	if got.Deliveries != 1 || p.hasEnded() {
		t.Errorf("%d deliveries, ended %v", got.Deliveries, p.hasEnded())
	}
	s.judged(s.submit(wrong), "Wrong answer", 40)
	d.stop()
}
