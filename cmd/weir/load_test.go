package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func mustLoad(t *testing.T, path string) Config {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Load(filepath.Base(path), src)
	if err != nil {
		t.Fatalf("%s:\n%v", path, err)
	}
	return c
}

func TestTheShippedFileIsTheDefaults(t *testing.T) {
	if diff := cmp.Diff(Default(), mustLoad(t, "../../config.yaml")); diff != "" {
		t.Errorf("config.yaml differs from Default() (-default +file):\n%s", diff)
	}
}

func TestTheDefaultsAreValid(t *testing.T) {
	if faults := Default().Validate(); len(faults) > 0 {
		t.Errorf("%v", faults)
	}
}

func TestAnEmptyFileIsTheDefaults(t *testing.T) {
	for _, name := range []string{"empty", "comment_only"} {
		if diff := cmp.Diff(Default(), mustLoad(t, "testdata/good/"+name+".yaml")); diff != "" {
			t.Errorf("%s (-default +file):\n%s", name, diff)
		}
	}
}

func TestGoodFilesLoadAndComeBackFromTheEffectiveForm(t *testing.T) {
	files, _ := filepath.Glob("testdata/good/*.yaml")
	if len(files) == 0 {
		t.Fatal("no testdata")
	}
	for _, f := range append(files, "../../config.yaml") {
		t.Run(filepath.Base(f), func(t *testing.T) {
			c := mustLoad(t, f)
			out, err := Effective(c)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Load("effective", out)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if diff := cmp.Diff(c, again); diff != "" {
				t.Errorf("(-loaded +again):\n%s", diff)
			}
		})
	}
}

// Every text must survive the effective form, or check would print lies.
func TestOddTextsComeBackFromTheEffectiveForm(t *testing.T) {
	for _, odd := range []string{"", "1001", "true", "null", "~", "yes", "+1h", "a: b", "a #b", "- x", "{item}", "*x", "&x", "!x", "'", `"`, "a\nb", " x ", "0x1", "1e3", ".inf", "%", "@x", "héé", "a\tb", "|", ">"} {
		c := Default()
		c.Sales[0].Name, c.Data = odd, odd+"x"
		out, err := Effective(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Load("effective", out)
		if err != nil {
			t.Errorf("%q: %v", odd, err)
		} else if diff := cmp.Diff(c, again); diff != "" {
			t.Errorf("%q (-set +again):\n%s", odd, diff)
		}
	}
}

func TestARealShopsFileMeansWhatItSays(t *testing.T) {
	c := mustLoad(t, "testdata/good/real_shop.yaml")
	china := time.FixedZone("", 8*3600)
	check := func(ok bool, what string) {
		t.Helper()
		if !ok {
			t.Error(what)
		}
	}
	check(c.Listen.Drain == 0 && c.Listen.BodyLimit == 1024, "numbers of listen")
	check(c.Listen.ReadTimeout == 10*time.Second, "a key left out keeps its default")
	check(len(c.Upstream.ReleaseStatuses) == 0, "a list replaces the default list")
	check(c.Redis.Shared != nil && c.Redis.Shared.Pool == 32 && c.Redis.Shared.Username == "", "redis.shared has the defaults, not the values of stock")
	check(c.Routes[0].Captcha && c.Routes[0].Auth == "required", "a buy route wants captcha and user unless told otherwise")
	check(!c.Routes[1].Captcha && c.Routes[1].BodyLimit == 1024, "a proxy route has no captcha")
	check(c.Limits.User.Rate == 0.5 && c.Limits.User.Per == time.Second && c.Limits.Pass.Mode == "off", "limits merge key by key")

	s := c.Sales[0].Plan(time.Time{})
	check(s.StartAt.Equal(time.Date(2030, 11, 11, 20, 0, 0, 0, china)), "start")
	check(s.EndAt.Equal(s.StartAt.Add(36*time.Hour)), "an end counts from its start")
	check(s.Hold == 90*time.Minute && s.Item == "0010" && s.BuyerLimit == 1, "hold, item, default buyer limit")
	for _, sale := range c.Sales {
		check(sale.Plan(time.Now()).Validate() == nil, "the store takes sale "+sale.ID)
	}
}

func TestASaleThatStartsNowEndsAfterThePlan(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s := demoSale().Plan(now)
	if !s.StartAt.IsZero() || !s.EndAt.Equal(now.Add(30*day)) {
		t.Errorf("start %v end %v", s.StartAt, s.EndAt)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
}

func TestARealShopHasNoDemoSaleUnlessWritten(t *testing.T) {
	c, err := Load("x", []byte("upstream: {url: http://shop}"))
	if err != nil || len(c.Sales) != 0 {
		t.Errorf("%v, %d sales", err, len(c.Sales))
	}
}

// Each bad file says its fault in its first line, and has no other.
func TestBadFilesSayTheirFault(t *testing.T) {
	files, _ := filepath.Glob("testdata/bad/*.yaml")
	if len(files) < 60 {
		t.Fatalf("only %d files", len(files))
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			src, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(string(src), "\n")
			want := strings.TrimPrefix(first, "# ")
			_, err = Load(filepath.Base(f), src)
			var faults Faults
			if !errors.As(err, &faults) {
				t.Fatalf("got %v, want %s", err, want)
			}
			if len(faults) != 1 || !strings.HasPrefix(faults[0].String(), want) {
				t.Errorf("got\n%v\nwant\n%s", faults, want)
			}
			if strings.Contains(err.Error(), "correct-horse") {
				t.Errorf("the fault repeats the secret: %v", err)
			}
		})
	}
}

func TestAllFaultsAreReportedAtOnceInTheOrderOfTheFile(t *testing.T) {
	src := `log: {level: loud}
listen:
  adress: x
  read_timeout: 5
  trusted_proxies: [nowhere]
secret: s
sales:
  - {id: a, item: "1", ends_at: soon, total: many}
captcha:
  digits: 3
  digits: 4
`
	want := []string{
		`c.yaml:1: log.level: (loud) is unknown`,
		`c.yaml:3: listen.adress: is no key`,
		`c.yaml:4: listen.read_timeout: is a number (5)`,
		`c.yaml:5: listen.trusted_proxies[0]: (nowhere) is no address`,
		`c.yaml:6: secret: is a secret`,
		`c.yaml:8: sales[0].ends_at: (soon) is no time`,
		`c.yaml:8: sales[0].total: is a text (many)`,
		`c.yaml:11: captcha.digits: stands twice`,
	}
	_, err := Load("c.yaml", []byte(src))
	var faults Faults
	errors.As(err, &faults)
	if len(faults) != len(want) {
		t.Fatalf("got %d faults:\n%v", len(faults), err)
	}
	for i, w := range want {
		if !strings.HasPrefix(faults[i].String(), w) {
			t.Errorf("fault %d: got %s, want %s", i, faults[i], w)
		}
	}
}

func TestAnEndlessFileIsRefused(t *testing.T) {
	for want, src := range map[string]string{
		"is too large": strings.Repeat("#", maxConfigBytes+1),
		"is too long":  strings.Repeat("a:\n", maxConfigLines+1),
		"is no UTF-8":  "data: \xff",
	} {
		_, err := Load("big.yaml", []byte(src))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func FuzzLoad(f *testing.F) {
	for _, glob := range []string{"testdata/*/*.yaml", "../../config.yaml"} {
		files, _ := filepath.Glob(glob)
		for _, name := range files {
			src, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		c, err := Load("fuzz.yaml", src)
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.HasPrefix(line, "fuzz.yaml:") {
					t.Fatalf("a fault without its file: %q", line)
				}
			}
			return
		}
		out, err := Effective(c)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Load("again", out); err != nil || !cmp.Equal(c, again) {
			t.Fatalf("%v\n%s\n%s", err, out, cmp.Diff(c, again))
		}
		for _, s := range c.Sales {
			if err := s.Plan(time.Now()).Validate(); err != nil && !strings.Contains(err.Error(), "ends_at") {
				t.Fatalf("valid here, not for the store: %v", err)
			}
		}
	})
}
