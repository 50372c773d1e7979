package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

func TestASuiteIsTheTestsThatOnlyTheTagBrings(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.go":            "package a\n",
		"a_test.go":       "package a\nfunc TestAlways(t *testing.T) {}\n",
		"b_guest_test.go": "//go:build guest\n\npackage a\nfunc TestInside(t *testing.T) {}\nfunc TestMain(m *testing.M) {}\nfunc Testify() {}\nfunc (x y) TestMethod() {}\n",
		"c_test.go":       "//go:build guest\n\npackage a_test\nfunc Test(t *testing.T) {}\nfunc Test_under(t *testing.T) {}\nfunc TestÄrger(t *testing.T) {}\n",
		"d_test.go":       "//go:build !guest\n\npackage a\nfunc TestOutside(t *testing.T) {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests, err := taggedTests(suite{name: "a", pkg: dir})
	if want := []string{"TestInside", "Test", "Test_under", "TestÄrger"}; err != nil || !slices.Equal(tests, want) {
		t.Errorf("%q, %v; want %q", tests, err, want)
	}
	if _, err := taggedTests(suite{name: "none", pkg: t.TempDir()}); err == nil {
		t.Error("a directory without a package has a suite")
	}
	if err := os.Remove(filepath.Join(dir, "b_guest_test.go")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "c_test.go")); err != nil {
		t.Fatal(err)
	}
	if tests, err := taggedTests(suite{name: "a", pkg: dir}); err == nil {
		t.Errorf("a package without a test for the guest has the suite %q", tests)
	}
}

func TestWhatIsBehindATagIsThePackagesWhoseFilesAskAboutIt(t *testing.T) {
	t.Chdir(t.TempDir())
	texts := map[string]string{
		"on/a.go":     "// Package on is on.\n\n//go:build mutants\n\npackage on\n",
		"off/a.go":    "//go:build linux && !(guest || mutants)\n\npackage off\n",
		"plain/a.go":  "package plain\n\nconst text = `\n//go:build mutants\n`\n",
		"other/a.go":  "//go:build guest\n\npackage other\n",
		"on/b.go":     "//go:build !mutants\n\npackage on\n",
		"longer/a.go": "//go:build mutants2\n\npackage longer\n",
	}
	var files []string
	for name, text := range texts {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, name)
	}
	got, err := behindTag(files, "mutants")
	if want := []string{"./off", "./on"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if got, err := behindTag(files, "nobody"); err == nil {
		t.Errorf("behind a tag that no file knows are %q", got)
	}
	if got, err := behindTag([]string{"gone.go"}, "mutants"); err == nil {
		t.Errorf("behind the tag of a file that is gone are %q", got)
	}
}

func TestOfASuitesTestsOnlyThoseAskedForRun(t *testing.T) {
	d, _ := faked(&fakeGuest{})
	all := []string{"TestOne", "TestTwo", "TestThree"}
	if got := d.restricted(all); !slices.Equal(got, all) {
		t.Errorf("nothing was asked for, and %q run", got)
	}
	d.only = regexp.MustCompile("One|Three")
	if got := d.restricted(slices.Clone(all)); !slices.Equal(got, []string{"TestOne", "TestThree"}) {
		t.Errorf("%q run", got)
	}
}
