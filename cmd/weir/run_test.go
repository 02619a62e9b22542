package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// command runs the whole program in an empty folder unless the arguments name files.
func command(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut strings.Builder
	code = run(t.Context(), args, envOf(env), strings.NewReader(""), &out, &errOut)
	return code, out.String(), errOut.String()
}

func TestCheckPrintsTheEffectiveConfigurationAndMasksSecrets(t *testing.T) {
	t.Chdir(t.TempDir())
	code, out, errOut := command(t, map[string]string{"WEIR_SECRET": loud, "WEIR_JWT_SECRET": loud, "WEIR_ADMIN_TOKEN": loud},
		"check", "--listen", ":8081", "--admin", "127.0.0.1:9091", "--data", "d", "--upstream", "http://shop:8000", "--redis", "10.0.0.1,redis://10.0.0.2:6380")
	if code != exitError || !strings.Contains(errOut, "command line: redis.stock.addresses[0]: (10.0.0.1) is no address of a Redis") {
		t.Fatalf("a wrong flag: %d\n%s", code, errOut)
	}
	code, out, errOut = command(t, map[string]string{"WEIR_SECRET": loud, "WEIR_JWT_SECRET": loud, "WEIR_ADMIN_TOKEN": loud},
		"check", "--listen", ":8081", "--admin", "127.0.0.1:9091", "--data", "d", "--upstream", "http://shop:8000", "--redis", "10.0.0.1:6379,rediss://10.0.0.2")
	if code != exitOK {
		t.Fatalf("%d %s", code, errOut)
	}
	c, err := Load("effective", []byte(out))
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen.Address != ":8081" || c.Admin.Address != "127.0.0.1:9091" || c.Data != "d" || c.Upstream.URL != "http://shop:8000" {
		t.Errorf("flags do not win:\n%s", out)
	}
	if r := c.Redis; r.Mode != "external" || !r.Stock.TLS || strings.Join(r.Stock.Addresses, " ") != "10.0.0.1:6379 10.0.0.2:6379" {
		t.Errorf("--redis: %+v", r)
	}
	for _, want := range []string{"secret_file (WEIR_SECRET): ***set***", "identity.cookie.secret_file (WEIR_COOKIE_SECRET): ***not set***", "sales: []"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out+errOut, loud) {
		t.Error("a secret was printed")
	}
}

func TestCheckReportsEveryFaultOfFileFlagsAndSecrets(t *testing.T) {
	t.Chdir(t.TempDir())
	src := "captcha: {digits: 1}\nupstream:\n  url: http://shop\nsecret_file: none\n"
	if err := os.WriteFile("config.yaml", []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := command(t, nil, "check", "--listen", "nowhere")
	if code != exitError || out != "" {
		t.Errorf("exit %d, printed %q", code, out)
	}
	for _, want := range []string{
		"weir: config.yaml:1: captcha.digits: (1) is out of range",
		"weir: config.yaml:4: secret_file: (none) cannot be read",
		"weir: config.yaml: admin.tokens: is empty",
		"weir: config.yaml: identity.jwt.secret_file: is missing",
		"weir: command line: listen.address: (nowhere) is no address",
	} {
		if !strings.Contains(errOut, want) {
			t.Errorf("no %q in\n%s", want, errOut)
		}
	}
	if n := strings.Count(errOut, "\n"); n != 5 {
		t.Errorf("%d lines:\n%s", n, errOut)
	}
}

func TestAMissingFileIsAnErrorOnlyWhenItWasNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	if code, _, errOut := command(t, nil, "check"); code != exitOK {
		t.Errorf("the default file: %d %s", code, errOut)
	}
	for _, args := range [][]string{{"check", "-c", "config.yaml"}, {"-c", "config.yaml"}, {"serve", "--config=config.yaml"}, {"sale", "list", "-c", "config.yaml"}} {
		code, _, errOut := command(t, nil, args...)
		if code != exitError || errOut != "weir: reading the configuration config.yaml: no such file or directory\n" {
			t.Errorf("%v: %d %q", args, code, errOut)
		}
	}
	if code, _, errOut := command(t, nil, "check", "-c", t.TempDir()); code != exitError || !strings.Contains(errOut, "is a directory") {
		t.Errorf("a folder: %d %q", code, errOut)
	}
}

func TestWrongUsageExitsWithTwoAndOneLine(t *testing.T) {
	for _, args := range [][]string{
		{"sevre"}, {"--no-such-flag"}, {"serve", "extra"}, {"check", "--listen"}, {"sale"}, {"sale", "show"}, {"sale", "show", "a", "b"}, {"sale", "shwo"},
		{"sale", "show", "../x"}, {"ban"}, {"ban", "add", "user"}, {"ban", "add", "user", "u"}, {"ban", "add", "user", "u", "--reason", "r"},
		{"ban", "add", "user", "u", "--reason", "r", "--for", "1h", "--permanent"}, {"ban", "add", "user", "u", "--reason", "r", "--for", "1x"},
		{"ban", "add", "user", "u", "--reason", "r", "--until", "2030-01-01"}, {"ban", "add", "planet", "u", "--reason", "r", "--permanent"},
		{"ban", "remove", "planet", "x"}, {"ban", "list", "--scope", "planet"}, {"key"}, {"version", "x"},
		{"check", "--redis", "redis://user:correct-horse@h"}, {"check", "--redis", "redis://h/3"}, {"sale", "list", "--admin", "ftp://x"},
	} {
		code, out, errOut := command(t, nil, args...)
		if code != exitUsage || out != "" || strings.Count(errOut, "\n") != 1 || !strings.HasPrefix(errOut, "weir: ") {
			t.Errorf("%v: exit %d\n%s%s", args, code, out, errOut)
		}
		if strings.Contains(errOut, "correct-horse") {
			t.Errorf("%v repeats the password: %s", args, errOut)
		}
	}
}

func TestEveryVerbHasHelpWithAnExample(t *testing.T) {
	for _, verb := range []string{"", "serve", "check", "version", "key shop", "sale list", "sale show", "sale preheat", "sale level", "sale pause", "sale resume", "sale cancel", "ban add", "ban list", "ban remove"} {
		code, out, _ := command(t, nil, append(strings.Fields(verb), "--help")...)
		if code != exitOK || !strings.Contains(out, "Usage:") || !strings.Contains(out, "Examples:\n  ") {
			t.Errorf("%q: %d\n%s", verb, code, out)
		}
	}
}

func TestVersion(t *testing.T) {
	if code, out, _ := command(t, nil, "version"); code != exitOK || !strings.HasPrefix(out, "weir ") {
		t.Errorf("%d %q", code, out)
	}
}

func TestTheShopsKeyIsPrintedWhateverElseIsMissing(t *testing.T) {
	t.Chdir(t.TempDir())
	code, out, errOut := command(t, map[string]string{"WEIR_SECRET": loud}, "key", "shop", "--upstream", "http://shop")
	if code != exitOK || len(out) != 45 {
		t.Errorf("%d %q %s", code, out, errOut)
	}
	if code, _, errOut = command(t, nil, "key", "shop"); code != exitError || !strings.Contains(errOut, "WEIR_SECRET") {
		t.Errorf("%d %s", code, errOut)
	}
	if code, _, errOut = command(t, map[string]string{"WEIR_SECRET": "short"}, "key", "shop"); code != exitError || !strings.Contains(errOut, "too short") {
		t.Errorf("%d %s", code, errOut)
	}
}

func TestServeRefusesARealShopWithoutSecrets(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range [][]string{nil, {"serve"}} {
		code, _, errOut := command(t, nil, append(args, "--upstream", "http://10.0.0.5")...)
		if code != exitError || !strings.Contains(errOut, "weir: built-in defaults: secret_file: is missing and upstream.url is not sample") || !strings.Contains(errOut, "head -c 32 /dev/urandom | base64") {
			t.Errorf("%d %s", code, errOut)
		}
		if made, _ := filepath.Glob("*"); len(made) > 0 {
			t.Errorf("it left %v", made)
		}
	}
}

func TestTheLogStartsAtItsLevel(t *testing.T) {
	for level, lines := range map[string]int{"debug": 4, "info": 3, "warn": 2, "error": 1} {
		var b strings.Builder
		log := newLogger(LogConfig{Level: level}, &b)
		log.Debug("x")
		log.Info("x")
		log.Warn("x")
		log.Error("x")
		if n := strings.Count(b.String(), "\n"); n != lines {
			t.Errorf("%s: %d lines", level, n)
		}
	}
}
