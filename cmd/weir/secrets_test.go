package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const loud = "correct-horse-battery-staple-correct-horse" // 42 bytes

func noEnv(string) string { return "" }

func envOf(pairs map[string]string) func(string) string {
	return func(k string) string { return pairs[k] }
}

func write(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return name
}

func realShop() Config {
	c := Default()
	c.Upstream.URL = "http://10.0.0.5"
	return c
}

func TestASecretIsNeverPrinted(t *testing.T) {
	s := NewSecret(loud)
	b, err := json.Marshal(map[string]any{"s": s, "in": AdminToken{Token: s}})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "s", s, "in", Secrets{Master: s})
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "s", s, "in", Secrets{Master: s})
	for _, out := range []string{
		string(b), log.String(), s.String(), fmt.Sprint(s, &s, []Secret{s}), fmt.Sprintf("%v %+v %#v %s %q %x %X %d %5s", s, s, s, s, s, s, s, s, s),
		fmt.Sprintf("%v %+v %#v", Secrets{Master: s}, Secrets{Master: s}, Secrets{Master: s}),
	} {
		for _, form := range []string{loud, hex.EncodeToString([]byte(loud)), fmt.Sprintf("%d", []byte(loud))} {
			if strings.Contains(strings.ToLower(out), form) {
				t.Errorf("printed: %s", out)
			}
		}
	}
	if string(s.Reveal()) != loud {
		t.Error("Reveal gives another text")
	}
}

func TestTheSampleShopNeedsNoSecret(t *testing.T) {
	s, err := Default().Secrets(noEnv)
	if err != nil || s.Master.Set() || len(s.AdminTokens) > 0 || s.JWT.Set() {
		t.Errorf("%v %+v", err, s)
	}
}

func TestARealShopIsToldEverySecretThatIsMissingAndHowToMakeIt(t *testing.T) {
	c := realShop()
	c.Identity.Cookie.Name = "user"
	c.Redis.Stock.Username = "weir"
	_, err := c.Secrets(noEnv)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"secret_file: is missing and upstream.url is not sample; right is WEIR_SECRET in the environment or a file, made with: head -c 32 /dev/urandom | base64 > secret",
		"identity.jwt.secret_file: is missing", "WEIR_JWT_SECRET",
		"identity.cookie.secret_file: is missing", "WEIR_COOKIE_SECRET",
		"redis.stock.password_file: is missing for the user of this Redis (weir)",
		"admin.tokens: is empty", "WEIR_ADMIN_TOKEN",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %q in\n%v", want, err)
		}
	}
}

func TestSecretsComeFromFilesAndTheEnvironmentWins(t *testing.T) {
	c := realShop()
	c.SecretFile = write(t, loud+"\n", 0o600)
	c.Identity.JWT.SecretFile = write(t, strings.Repeat("f", 32), 0o600)
	c.Admin.Tokens = []TokenConfig{{"alice", "security", write(t, "0123456789abcdef\r\n", 0o600)}}
	s, err := c.Secrets(envOf(map[string]string{"WEIR_JWT_SECRET": strings.Repeat("e", 32), "WEIR_ADMIN_TOKEN": "fedcba9876543210", "WEIR_REDIS_PASSWORD": "p"}))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(s.Master.Reveal()); got != loud {
		t.Errorf("master %q", got)
	}
	if got := string(s.JWT.Reveal()); got != strings.Repeat("e", 32) {
		t.Errorf("jwt %q", got)
	}
	want := []AdminToken{{"alice", "security", NewSecret("0123456789abcdef")}, {"env", "operator", NewSecret("fedcba9876543210")}}
	if len(s.AdminTokens) != 2 || s.AdminTokens[0] != want[0] || s.AdminTokens[1] != want[1] {
		t.Error("not the two tokens")
	}
	if s.StockPassword != NewSecret("p") || s.SharedPassword != s.StockPassword {
		t.Error("the shared Redis is the stock's and has its password")
	}
	if len(s.Warnings) != 0 {
		t.Errorf("warnings %q", s.Warnings)
	}
}

func TestASecondRedisDoesNotGetThePasswordOfTheFirst(t *testing.T) {
	c := Default()
	c.Redis.Shared = &RedisServer{}
	s, err := c.Secrets(envOf(map[string]string{"WEIR_REDIS_PASSWORD": "p"}))
	if err != nil || s.SharedPassword.Set() {
		t.Errorf("%v, set %v", err, s.SharedPassword.Set())
	}
}

func TestBadSecretsAreRefused(t *testing.T) {
	short := write(t, "short\n", 0o600)
	for name, tc := range map[string]struct {
		change func(*Config)
		env    map[string]string
		want   string
	}{
		"too short in a file":   {func(c *Config) { c.SecretFile = short }, nil, "secret_file: is too short in " + clip(short) + " (5 bytes), right is at least 32"},
		"too short in the env":  {func(c *Config) {}, map[string]string{"WEIR_SECRET": "short"}, "secret_file: is too short in WEIR_SECRET (5 bytes)"},
		"an empty file":         {func(c *Config) { c.SecretFile = write(t, "\n", 0o600) }, nil, "(0 bytes)"},
		"no file":               {func(c *Config) { c.SecretFile = "no/such" }, nil, "secret_file: (no/such) cannot be read: no such file"},
		"a folder":              {func(c *Config) { c.SecretFile = t.TempDir() }, nil, "is no regular file"},
		"a huge file":           {func(c *Config) { c.SecretFile = write(t, strings.Repeat("x", 1<<17), 0o600) }, nil, "is larger than"},
		"a token of two lines":  {func(c *Config) {}, map[string]string{"WEIR_ADMIN_TOKEN": "0123456789\nabcdef"}, "holds spaces, line breaks"},
		"a short token":         {func(c *Config) {}, map[string]string{"WEIR_ADMIN_TOKEN": "0123"}, "admin.tokens: is too short in WEIR_ADMIN_TOKEN (4 bytes), right is at least 16"},
		"admin for the world":   {func(c *Config) { c.Admin.Address = ":9090" }, nil, "admin.tokens: is empty and admin.address (:9090) can be reached from other hosts"},
		"admin on a real host":  {func(c *Config) { c.Admin.Address = "10.0.0.1:9090" }, nil, "can be reached"},
		"a key that is no key":  {func(c *Config) { rs(c).PublicKeyFiles = []string{short} }, nil, "public_key_files[0]: (" + clip(short) + ") holds no PEM block"},
		"a key that is missing": {func(c *Config) { rs(c).PublicKeyFiles = []string{"no/such"} }, nil, "cannot be read"},
		"the wrong kind of key": {func(c *Config) { rs(c).PublicKeyFiles = []string{edKey(t)} }, nil, "is a key for EdDSA"},
		"a weak key":            {func(c *Config) { rs(c).PublicKeyFiles = []string{rsaKey(t, 1024)} }, nil, "is an RSA key of 1024 bits"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Default()
			tc.change(&c)
			_, err := c.Secrets(envOf(tc.env))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v\nwant %s", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one fault: %v", err)
			}
		})
	}
}

func rs(c *Config) *JWTConfig {
	c.Identity.JWT.Algorithms = []string{"RS256"}
	return &c.Identity.JWT
}

func pemFile(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), 0o644)
}

func edKey(t *testing.T) string {
	pub, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return pemFile(t, pub)
}

func rsaKey(t *testing.T, bits int) string {
	t.Setenv("GODEBUG", "rsa1024min=0")
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return pemFile(t, &key.PublicKey)
}

func TestPublicKeysAreRead(t *testing.T) {
	c := realShop()
	c.Identity.JWT.Algorithms = []string{"RS256", "EdDSA"}
	c.Identity.JWT.PublicKeyFiles = []string{rsaKey(t, 2048), edKey(t)}
	s, err := c.Secrets(envOf(map[string]string{"WEIR_SECRET": loud, "WEIR_ADMIN_TOKEN": loud}))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := s.JWTKeys[0].(*rsa.PublicKey); !ok {
		t.Errorf("got %T", s.JWTKeys[0])
	}
	if _, ok := s.JWTKeys[1].(ed25519.PublicKey); !ok {
		t.Errorf("got %T", s.JWTKeys[1])
	}
}

func TestTheSameTokenForTwoNamesIsRefused(t *testing.T) {
	c := Default()
	c.Admin.Tokens = []TokenConfig{{"alice", "viewer", write(t, loud, 0o600)}, {"bob", "operator", write(t, loud, 0o600)}}
	_, err := c.Secrets(noEnv)
	if err == nil || !strings.Contains(err.Error(), "admin.tokens[1].token_file: is the same token as that of alice") || strings.Contains(err.Error(), loud) {
		t.Errorf("got %v", err)
	}
}

func TestAFileThatEverybodyReadsIsWarnedOf(t *testing.T) {
	c := Default()
	c.SecretFile = write(t, loud, 0o644)
	s, err := c.Secrets(noEnv)
	if err != nil || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "chmod 600") {
		t.Errorf("%v %q", err, s.Warnings)
	}
}

func TestDerivedKeysAreFixedByVectorAndApartByLabel(t *testing.T) {
	shop, pass := deriveKey([]byte(loud), "shop"), deriveKey([]byte(loud), "pass")
	if len(shop) != 32 || string(shop) == string(pass) {
		t.Fatal("keys of two uses must differ")
	}
	// Computed with the RFC 5869 construction in another language.
	if got := hex.EncodeToString(shop); got != shopVector {
		t.Errorf("the shop's key has changed: %s", got)
	}
}

const shopVector = "461b3cc4a2a3452faaf00ce1e6eb0c5c8a78a77cfe4e4bf25c6030258d4a7236"
