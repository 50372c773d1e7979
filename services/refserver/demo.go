package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/refserver"
	"github.com/evalhost/evalhost/services/internal/report"
)

// demoPatience bounds one job of the demo, on an emulated machine too.
const demoPatience = 10 * time.Minute

// demoHomes is where the demo's Runner keeps its key and its packages. Containers mount from there.
var demoHomes = "/var/lib/evalhost"

// demo shows a Server and a Runner at work: it starts both, publishes a package, hands in the sources, and prints what
// comes back. The Runner takes its settings from this process's environment, beside those of the demo.
//
//	refserver demo RUNNER PACKAGE SOURCE...
//
// Exit status: 0 when every source got a verdict, whatever it is; 1 otherwise; 2 for a wrong command line.
func demo(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("refserver demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() < 3 {
		fmt.Fprintln(stderr, "refserver: usage: refserver demo RUNNER PACKAGE SOURCE...")
		return 2
	}
	if err := play(ctx, flags.Arg(0), flags.Arg(1), flags.Args()[2:], stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "refserver:", err)
		return 1
	}
	return 0
}

// play carries the demo out.
func play(ctx context.Context, runner, problem string, sources []string, stdout, stderr io.Writer) (err error) {
	server, err := refserver.New(refserver.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	web := &http.Server{Handler: server, ReadHeaderTimeout: 10 * time.Second}
	ctx, cancel := context.WithCancelCause(ctx)
	swept, served := make(chan struct{}), make(chan error, 1)
	go func() { defer close(swept); server.Run(ctx) }()
	go func() { served <- web.Serve(listener) }()
	defer func() {
		cancel(nil)
		_ = web.Close()
		<-served
		<-swept
	}()
	fmt.Fprintf(stdout, "A reference server listens on http://%s; nobody else can reach it.\n", listener.Addr())
	stop, err := startRunner(runner, "http://"+listener.Addr().String()+refserver.Prefix, stderr, cancel)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	archive, err := pack(problem)
	if err != nil {
		return err
	}
	p, err := server.AddPackage(refserver.Package{Name: filepath.Base(problem), Content: bytes.NewReader(archive)})
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "Published the package %s, %s.\n", p.Name, p.Size)
	if err := approve(ctx, server, stdout); err != nil {
		return err
	}
	var missing []error
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nsource\tverdict\tscore\ttook")
	for _, source := range sources {
		j, took, err := handIn(ctx, server, p.ID, source)
		if err != nil {
			missing = append(missing, err)
			fmt.Fprintf(table, "%s\tno verdict: %s\t-\t%s\n", filepath.Base(source), report.Printable(err.Error()), took)
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%g of %g\t%s\n", filepath.Base(source), j.Result.Verdict, *j.Result.Score, *j.Result.MaxScore, took)
		for _, t := range rows(server.Attachment(j.ID, "details")) {
			fmt.Fprintf(table, "  test %s\t%s\t%g of %g\t%d ms\n", t.No, strings.TrimSpace(t.Status+" "+t.Reason), t.Score, t.MaxScore, t.TimeMs)
		}
	}
	return errors.Join(table.Flush(), errors.Join(missing...))
}

// startRunner starts a Runner in a home of its own; stop asks it to end and waits. A Runner that ends by itself ends the demo.
func startRunner(runner, base string, stderr io.Writer, over context.CancelCauseFunc) (stop func() error, err error) {
	home, err := os.MkdirTemp(demoHomes, "demo-")
	if err != nil {
		return nil, fmt.Errorf("make a home for the Runner: %w", err)
	}
	cmd := exec.Command(runner)
	cmd.Env = append(os.Environ(), "AJ_Server__BaseUrl="+base, "AJ_Runner__Name=demo", "AJ_Runner__KeyPath="+filepath.Join(home, "identity.key"),
		"AJ_Cache__Path="+filepath.Join(home, "cache"), "AJ_Work__Path=/var/lib/evalhost/scratch", "AJ_Poll__MaxSeconds=2",
		"EVALHOST_LOG_LEVEL=warn")
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a stop of ours reaches it from us, in order
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the Runner: %w", err), os.RemoveAll(home))
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		over(fmt.Errorf("the Runner has ended (%s)", cmd.ProcessState))
		ended <- err
	}()
	return func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		var err error
		select {
		case err = <-ended:
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
			err = errors.Join(errors.New("it did not stop within a minute"), <-ended)
		}
		if err != nil {
			err = fmt.Errorf("the Runner: %w", err)
		}
		return errors.Join(err, os.RemoveAll(home))
	}, nil
}

// approve waits for the Runner to register and lets it in, as an administrator would.
func approve(ctx context.Context, server *refserver.Server, stdout io.Writer) error {
	for deadline := time.Now().Add(demoPatience); time.Now().Before(deadline); {
		for _, r := range server.Snapshot().Runners {
			fmt.Fprintf(stdout, "The Runner %s registered with the key %s: approved.\n", report.Printable(r.Name), r.Fingerprint.Short())
			return server.Approve(r.ID)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
	return errors.New("no Runner has registered; what it said above says why")
}

// handIn submits a source and waits until it is judged.
func handIn(ctx context.Context, server *refserver.Server, problem, source string) (refserver.Job, time.Duration, error) {
	began := time.Now()
	took := func() time.Duration { return time.Since(began).Round(100 * time.Millisecond) }
	content, err := os.ReadFile(source)
	if err != nil {
		return refserver.Job{}, took(), err
	}
	toolchain, ok := langimages.Default().ByExtension(filepath.Base(source))
	if !ok {
		return refserver.Job{}, took(), errors.New("its extension names no language")
	}
	submitted, err := server.Submit(refserver.BytesSubmission(problem, filepath.Base(source), toolchain.ID, content))
	if err != nil {
		return refserver.Job{}, took(), err
	}
	for time.Since(began) < demoPatience {
		if j, _ := server.Job(submitted.ID); j.State.Final() {
			if j.State != refserver.Completed || j.Result == nil || j.Result.Score == nil || j.Result.MaxScore == nil {
				return j, took(), fmt.Errorf("it ended as %s: %s", j.State, j.FailureReason)
			}
			return j, took(), nil
		}
		if err := pause(ctx); err != nil {
			return refserver.Job{}, took(), err
		}
	}
	return refserver.Job{}, took(), fmt.Errorf("it was not judged within %s", demoPatience)
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(50 * time.Millisecond):
		return nil
	}
}

// row is what of a test is printed.
type row struct {
	No, Status, Reason string
	TimeMs             int64
	Score, MaxScore    float64
}

func rows(details []byte) []row {
	var document struct{ Tests []row }
	_ = json.Unmarshal(details, &document) // a document that cannot be read has no rows to print
	return document.Tests
}

// pack makes an archive of a package's directory.
func pack(dir string) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	if err := errors.Join(w.AddFS(os.DirFS(dir)), w.Close()); err != nil {
		return nil, fmt.Errorf("pack %s: %w", dir, err)
	}
	return b.Bytes(), nil
}
