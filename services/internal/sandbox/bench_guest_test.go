//go:build guest

package sandbox

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/engine"
	"github.com/evalhost/evalhost/services/internal/verdict"
	"github.com/evalhost/evalhost/shim/wire/nonce"
)

// BenchmarkARunOfNothing measures what a judged run costs outside the program: until its container waits at the barrier,
// from go to the outcome, and its removal. make bench runs it in the guest.
func BenchmarkARunOfNothing(b *testing.B) {
	ctx := b.Context()
	eng, err := engine.Connect(ctx, engine.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer eng.Close()
	box, err := Open(ctx, eng, Config{
		Instance: "bench-" + nonce.New()[:8], Scratch: scratch(), Shim: shimFile(), Lanes: []Lane{{}},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer box.Close(context.Background())
	job, err := box.OpenJob(ctx)
	if err != nil {
		b.Fatal(err)
	}
	defer job.Close()
	program, err := ProgramAt(filepath.Join(programs(), "actor"))
	if err != nil {
		b.Fatal(err)
	}
	var prepare, run, remove, gap time.Duration
	for b.Loop() {
		began := time.Now()
		p, err := job.Prepare(ctx, Run{
			Image: testImage, Command: []string{"/program/actor", "exit", "0"}, Program: program, Test: "1a",
			Input: strings.NewReader("\n"), Limits: Limits{Time: 10 * time.Second, Memory: 64 * verdict.MiB}, Output: &sink{},
		})
		if err != nil {
			b.Fatal(err)
		}
		prepared := time.Now()
		o, err := p.Go(ctx)
		if err != nil {
			b.Fatal(err)
		}
		went := time.Now()
		if err := p.Close(); err != nil {
			b.Fatal(err)
		}
		prepare, run, remove = prepare+prepared.Sub(began), run+went.Sub(prepared), remove+time.Since(went)
		gap += *o.Home - *o.Report
	}
	for unit, took := range map[string]time.Duration{
		"prepare-ms/op": prepare, "go-ms/op": run, "remove-ms/op": remove, "home-minus-report-ms/op": gap,
	} {
		b.ReportMetric(float64(took.Milliseconds())/float64(b.N), unit)
	}
}
