package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/evalhost/evalhost/checks/guest"
)

// lookName is the program that looks at a guest, and lookFile is where it keeps what it saw before the first suite.
const (
	lookName = "look"
	lookFile = "/opt/evalhost/before.json"
)

// lookPatience is longer than the program gives itself.
const lookPatience = 4 * time.Minute

func look(ctx context.Context, g machine, verb string) (string, error) {
	result, err := g.Exec(ctx, guest.Cmd{Args: []string{path.Join(guestBin, lookName), verb, lookFile}, Timeout: lookPatience})
	if err == nil && !result.OK() {
		err = fmt.Errorf("%s %s ended with %s", lookName, verb, result)
	}
	return result.Stdout, err
}

func takeLook(ctx context.Context, g machine) error {
	_, err := look(ctx, g, "take")
	return err
}

// countLeft prints in one line what is on the guest after all suites and was before them, and fails when anything is left.
func (d *drive) countLeft(ctx context.Context, g machine, where string) error {
	said, err := look(ctx, g, "compare")
	if err != nil {
		return err
	}
	var found struct {
		Counts []struct {
			Kind          string
			Before, After int
		}
		Left []string
	}
	if err := json.Unmarshal([]byte(said), &found); err != nil {
		return fmt.Errorf("%s compare said %q: %w", lookName, said, err)
	}
	if len(found.Counts) == 0 {
		return errors.New("nothing was counted")
	}
	var words []string
	for _, c := range found.Counts {
		words = append(words, fmt.Sprintf("%s %d (%d)", c.Kind, c.After, c.Before))
	}
	fmt.Fprintf(d.out, "left in the %s, and in brackets before: %s; %d left behind\n", where, strings.Join(words, ", "), len(found.Left))
	if len(found.Left) > 0 {
		return fmt.Errorf("left behind:\n  %s", strings.Join(found.Left, "\n  "))
	}
	return nil
}
