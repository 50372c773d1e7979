package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/checks/guest"
)

func TestTheStatusOfExecIsTheCommandsOrSaysWhyThereIsNone(t *testing.T) {
	for name, c := range map[string]struct {
		res    guest.Result
		err    error
		status int
		says   string // "" for nothing
	}{
		"it succeeded":           {guest.Result{}, nil, 0, ""},
		"it failed":              {guest.Result{Code: 7}, nil, 7, ""},
		"its own 124":            {guest.Result{Code: 124}, nil, 124, ""},
		"SIGTERM":                {guest.Result{Code: -1, Signal: 15}, nil, 143, ""},
		"SIGKILL":                {guest.Result{Code: -1, Signal: 9}, nil, 137, ""},
		"its time was up":        {guest.Result{Code: -1, Signal: 9, TimedOut: true}, nil, 124, "sleep 9 did not end within 2s"},
		"it ended as time ended": {guest.Result{TimedOut: true}, nil, 124, "sleep 9 did not end within 2s"},
		"there is no such program": {
			guest.Result{}, fmt.Errorf("%w %q: no such file", guest.ErrNotStarted, "sleep"), 127, "no such file",
		},
		"the connection broke": {guest.Result{}, errors.New("the connection is closed"), 125, "the connection is closed"},
		"it was interrupted":   {guest.Result{}, context.Canceled, 125, "canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			status, err := execStatus(c.res, c.err, []string{"sleep", "9"}, 2*time.Second)
			if status != c.status || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%d %v, want %d %q", status, err, c.status, c.says)
			}
		})
	}
}

func TestAStatusOfExecThatIsNotTheCommandsIsSeenByTheCaller(t *testing.T) {
	t.Setenv("EVALHOST_CACHE", t.TempDir())
	for want, args := range map[int][]string{
		exitUnreachable: {"exec", "--name", "nobody", "--", "true"},
		2:               {"exec", "--name", "nobody"},
	} {
		if got := run(t.Context(), args); got != want {
			t.Errorf("%q ends with %d, want %d", args, got, want)
		}
	}
}
