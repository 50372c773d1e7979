package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/problem"
	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// reader takes a value, trimmed and not empty. Its error says what was expected; its warning follows the key's name.
type reader func(s *Settings, value string) (warning string, err error)

// oneDay bounds every number of seconds: a longer one is a slip, and would overflow long before it was waited for.
const oneDay = 86400

// path reads an absolute path. Directories that are deleted under, or mounted from, are never the root.
func path(field func(*Settings) *string) reader {
	return func(s *Settings, value string) (string, error) {
		clean := filepath.Clean(value)
		if !filepath.IsAbs(value) || clean == "/" {
			return "", errors.New("expected an absolute path, and not the root")
		}
		if strings.ContainsFunc(value, unicode.IsControl) {
			return "", errors.New("expected an absolute path without control characters")
		}
		*field(s) = clean
		return "", nil
	}
}

// scratch reads a directory that programs are executed from.
func scratch(s *Settings, value string) (string, error) {
	var dir string
	if _, err := path(func(*Settings) *string { return &dir })(s, value); err != nil {
		return "", err
	}
	if inside(dir, "/run") || inside(dir, "/var/run") {
		return "", errors.New("expected a directory outside of /run, which is usually mounted noexec: programs are executed from here")
	}
	s.Scratch = dir
	return "", nil
}

// number reads a plain whole number: digits and nothing else.
func number(value string, least, most int64) (int64, error) {
	n, err := strconv.ParseUint(value, 10, 63)
	if err != nil || int64(n) < least || int64(n) > most {
		return 0, fmt.Errorf("expected a whole number of %d to %d, written with digits only", least, most)
	}
	return int64(n), nil
}

func seconds(least, most int64, field func(*Settings) *time.Duration) reader {
	return func(s *Settings, value string) (string, error) {
		n, err := number(value, least, most)
		*field(s) = time.Duration(n) * time.Second
		return "", err
	}
}

func pollWait(s *Settings, value string) (string, error) {
	_, err := seconds(0, 300, func(s *Settings) *time.Duration { return &s.PollWait })(s, value)
	if err != nil {
		return "", fmt.Errorf("%w: a Server holds a claim for 300 s at most, and a Runner that asks for more would take "+
			"every answer for an early one", err)
	}
	return "", nil
}

func heartbeat(s *Settings, value string) (string, error) {
	n, err := number(value, 0, oneDay)
	s.Heartbeat = time.Duration(max(n, 1)) * time.Second
	switch {
	case err != nil:
		return "", err
	case n == 0:
		return "is 0, which would send without a pause; 1 is used", nil
	case n >= 120:
		return fmt.Sprintf("is %d: the Server calls a Runner disconnected after 120 s of silence", n), nil
	}
	return "", nil
}

func leaseRequest(s *Settings, value string) (string, error) {
	n, err := number(value, 0, math.MaxInt32)
	s.LeaseRequest = time.Duration(n) * time.Second
	if granted := protocol.GrantedLease(s.LeaseRequest); err == nil && granted != s.LeaseRequest {
		return fmt.Sprintf("is %d: the Server grants 60 to 3600 s, so this is a lease of %d s", n, granted/time.Second), nil
	}
	return "", err
}

func lanes(s *Settings, value string) (string, error) {
	n, err := number(value, 1, 1024)
	s.Lanes = int(n)
	return "", err
}

func cacheMax(s *Settings, value string) (string, error) {
	n, err := number(value, 0, math.MaxInt64)
	if err != nil {
		return "", errors.New("expected a number of bytes, written with digits only: 10737418240 for 10 GiB")
	}
	s.CacheMax = verdict.Bytes(n)
	if n < int64(128*verdict.MiB) {
		return fmt.Sprintf("is %d bytes, less than one package may have: what no job holds is downloaded again for each", n), nil
	}
	return "", nil
}

func baseURL(s *Settings, value string) (string, error) {
	u, err := protocol.ParseBaseURL(value)
	if err != nil {
		return "", fmt.Errorf("expected the root of the Server's interface, such as https://judge.example.org/api/v1 (%w)", err)
	}
	if !strings.Contains(value, "/api/") {
		return "", errors.New("expected the root of the Server's interface with /api/ and a version, such as " +
			"https://judge.example.org/api/v1")
	}
	s.BaseURL = u.String()
	return "", nil
}

func name(s *Settings, value string) (string, error) {
	if utf8.RuneCountInString(value) > 128 || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return "", errors.New("expected 1 to 128 characters of text, without control characters")
	}
	s.Name = value
	return "", nil
}

// entries splits a comma list: each trimmed, blanks and repetitions dropped.
func entries(value string) []string {
	var list []string
	for entry := range strings.SplitSeq(value, ",") {
		if entry = strings.TrimSpace(entry); entry != "" && !slices.Contains(list, entry) {
			list = append(list, entry)
		}
	}
	return list
}

func problemTypes(s *Settings, value string) (string, error) {
	s.ProblemTypes = entries(value)
	if len(s.ProblemTypes) == 0 {
		return "", errors.New("expected at least one problem type, such as standard-io@1")
	}
	var strange []string
	for _, entry := range s.ProblemTypes {
		if !problem.Type(entry).Known() {
			strange = append(strange, entry)
		}
	}
	if len(strange) > 0 {
		return fmt.Sprintf("names %s, which this Runner cannot judge: should the Server have such problems, their jobs "+
			"fail here; it judges %s and %s", strings.Join(strange, ", "), problem.StandardIO, problem.OutputOnly), nil
	}
	return "", nil
}

func tags(s *Settings, value string) (string, error) {
	s.Tags = entries(strings.ToLower(value))
	if len(s.Tags) > 16 || slices.ContainsFunc(s.Tags, func(tag string) bool { return utf8.RuneCountInString(tag) > 64 }) {
		return "", errors.New("expected at most 16 tags of at most 64 characters each, separated by commas")
	}
	return "", nil
}

// on reads a switch: any value at all switches it on, so the values that seem to switch it off are pointed out.
func on(field func(*Settings) *bool) reader {
	return func(s *Settings, value string) (string, error) {
		*field(s) = true
		switch strings.ToLower(value) {
		case "0", "false", "no", "off":
			return fmt.Sprintf("is %q, and any value at all switches it ON; leave it out to switch it off", value), nil
		}
		return "", nil
	}
}

func dockerHost(s *Settings, value string) (string, error) {
	socket, ok := strings.CutPrefix(value, "unix://")
	if !ok || !filepath.IsAbs(socket) {
		return "", errors.New("expected unix:// and an absolute path: containers mount files of this machine")
	}
	s.DockerHost = value
	return "", nil
}

func wallFactor(s *Settings, value string) (string, error) {
	factor, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(factor) || factor < 1 || factor > 100 {
		return "", errors.New("expected a number of 1 to 100")
	}
	s.BuildWallFactor = factor
	return "", nil
}

func logLevel(s *Settings, value string) (string, error) {
	switch value {
	case "debug", "info", "warn", "error":
		return "", s.LogLevel.UnmarshalText([]byte(value))
	}
	return "", errors.New("expected debug, info, warn or error")
}

func shownLevel(level slog.Level) string { return strings.ToLower(level.String()) }

func imageShim(s *Settings, value string) (string, error) {
	if value != "image" {
		return "", errors.New(`expected "image", or nothing: EVALHOST_SHIM_PATH names a shim`)
	}
	s.Shim = ""
	return "is set: each image's own shim is used, which is for compatibility tests only", nil
}

func languages(s *Settings, value string) (string, error) {
	table, err := langimages.Default().Restrict(entries(value))
	if err != nil {
		return "", fmt.Errorf("expected toolchains or families of langimages/toolchains.json (%w)", err)
	}
	s.Languages = table
	return "", nil
}

// metrics reads an address that nobody outside of this machine can reach.
func metrics(s *Settings, value string) (string, error) {
	address, err := netip.ParseAddrPort(value)
	if err != nil || !address.Addr().IsLoopback() || address.Port() == 0 {
		return "", errors.New("expected a loopback address and a port, such as 127.0.0.1:9464: a judging host opens no port")
	}
	s.Metrics = address
	return "", nil
}

func healthFile(s *Settings, value string) (string, error) {
	if value == "none" {
		s.HealthFile = ""
		return "", nil
	}
	if _, err := path(func(s *Settings) *string { return &s.HealthFile })(s, value); err != nil {
		return "", errors.New(`expected an absolute path, or "none"`)
	}
	return "", nil
}

// image reads another reference for an image. It must still be the image of the manifest.
func image(key string) reader {
	return func(s *Settings, value string) (string, error) {
		if strings.ContainsFunc(value, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
			return "", errors.New("expected a reference such as registry.example.org/lang-gcc:1.2")
		}
		s.References[key] = value
		return "", nil
	}
}

// inside reports whether a clean path is a directory or below it.
func inside(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

var userInfo = regexp.MustCompile(`//.*@`)

// masked takes out what stands before the host of an address: a name and a password, whatever characters they have. Rather too
// much is taken out than too little.
func masked(text string) string { return userInfo.ReplaceAllString(text, "//...@") }

// bareUser is a name and a password before a host without a scheme. A digest behind an image's tag looks the same.
var bareUser = regexp.MustCompile(`^[^\s/@]+:[^\s/@]*@`)

// shown is a value as people may see it.
func shown(value string) string {
	value = masked(value)
	if !strings.Contains(value, "@sha256:") {
		value = bareUser.ReplaceAllString(value, "...@")
	}
	if runes := []rune(value); len(runes) > 200 {
		value = string(runes[:200]) + "..."
	}
	return value
}
