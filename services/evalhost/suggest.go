package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/evalhost/evalhost/services/internal/judge"
	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/report"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// suggestion is what accepted solutions say about one limit. Limits are in the unit of their setting: milliseconds for
// timeMs, bytes for memoryBytes.
type suggestion struct {
	// Setting is what of config.yml decided the limit, such as "overrideLimits.python.timeMs".
	Setting string `json:"setting"`
	Limit   uint64 `json:"limit"`
	// Measured is the most that a test of an accepted solution needed; Solution and Test say which.
	Measured uint64 `json:"measured"`
	Solution string `json:"solution"`
	Test     string `json:"test"`
	// Suggested is what the calibration rule makes of it.
	Suggested uint64 `json:"suggested"`

	memory bool
}

// suggest applies the calibration rules of a package to what its accepted solutions needed (spec/judging.md 2.6), for every
// setting that decided a limit for one of them. Only solutions that were meant to be accepted and were count.
func suggest(p *problem.Problem, solutions []solution) []suggestion {
	list := []suggestion{}
	note := func(setting string, limit, measured uint64, s solution, t judge.Tested, memory bool) {
		at := slices.IndexFunc(list, func(known suggestion) bool { return known.Setting == setting })
		if at < 0 {
			at = len(list)
			list = append(list, suggestion{Setting: setting, Limit: limit, memory: memory})
		}
		if known := &list[at]; known.Test == "" || measured > known.Measured {
			known.Measured, known.Solution, known.Test = measured, s.Path, t.Name
		}
	}
	for _, s := range solutions {
		if s.Expected != verdict.Accepted || s.Actual != verdict.Accepted {
			continue
		}
		for _, t := range s.tests {
			if !t.Ran {
				continue
			}
			limits := p.Limits(s.toolchain.Family, s.toolchain.ID, t.Group)
			time, memory := p.LimitSettings(s.toolchain.Family, s.toolchain.ID, t.Group)
			note(time, uint64(report.Millis(limits.Time)), uint64(report.Millis(t.Time)), s, t, false)
			if t.Memory != nil {
				note(memory, uint64(limits.Memory), uint64(*t.Memory), s, t, true)
			}
		}
	}
	for i := range list {
		rule := p.Calibration.Time
		if list[i].memory {
			rule = p.Calibration.Memory
		}
		list[i].Suggested = rule.Limit(list[i].Measured)
	}
	slices.SortStableFunc(list, func(a, b suggestion) int {
		switch {
		case a.memory == b.memory:
			return 0
		case b.memory:
			return -1
		}
		return 1
	})
	return list
}

// amount is a limit or a measurement for people.
func (s suggestion) amount(value uint64) string {
	if s.memory {
		return fmt.Sprintf("%.2f MiB", verdict.Bytes(min(value, 1<<62)).MiB())
	}
	return strconv.FormatUint(value, 10) + " ms"
}

// writeSuggestions prints a table, or nothing where nothing was measured.
func writeSuggestions(out io.Writer, list []suggestion) error {
	if len(list) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  setting\tnow\tmeasured\tsuggested\tslowest or largest of the accepted")
	for _, s := range list {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s, test %s\n", s.Setting, s.amount(s.Limit), s.amount(s.Measured), s.amount(s.Suggested),
			(&solution{Path: s.Solution}).name(), s.Test)
	}
	return w.Flush()
}
