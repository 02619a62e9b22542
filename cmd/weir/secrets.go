package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"
)

const (
	minSecret      = 32 // bytes of a key for HMAC-SHA256
	minToken       = 16 // bytes of a bearer token
	maxSecretBytes = 64 << 10
	howToMake      = "head -c 32 /dev/urandom | base64 > "
)

// Secrets is what the files and the environment hold. A zero Secret is one that
// is not set; with the sample shop that is allowed for all of them.
type Secrets struct {
	Master         Secret       // deriveKey makes every key from it
	AdminTokens    []AdminToken // may be empty only with the sample shop on loopback
	StockPassword  Secret
	SharedPassword Secret
	Archive        Secret      // PostgreSQL's password
	JWT            Secret      // key of HS256
	JWTKeys        []PublicKey // keys of RS256 and EdDSA
	Cookie         Secret      // key of identity.cookie
	Warnings       []string    // what is unwise but allowed, one line each
	sources        []source
}

// AdminToken is one bearer of the private API.
type AdminToken struct {
	Name, Role string
	Token      Secret
}

// source is one secret for the report of check.
type source struct {
	path, env string
	secret    Secret
}

// Secrets reads every secret. env gives environment variables, which win over
// files. The error is a Faults with all that is missing, unreadable or too short
// and how to make it.
func (c Config) Secrets(env func(string) string) (Secrets, error) {
	r := secretReader{env: env, needed: !c.Upstream.Sample()}
	s := &r.Secrets
	s.Master = r.read("secret_file", "WEIR_SECRET", c.SecretFile, minSecret)
	r.need("secret_file", "WEIR_SECRET", s.Master, "secret")
	r.jwt(c.Identity.JWT)
	s.Cookie = r.read("identity.cookie.secret_file", "WEIR_COOKIE_SECRET", c.Identity.Cookie.SecretFile, minSecret)
	if c.Identity.Cookie.Name != "" {
		r.need("identity.cookie.secret_file", "WEIR_COOKIE_SECRET", s.Cookie, "cookie.secret")
	}
	s.StockPassword = r.redis("redis.stock", "WEIR_REDIS_PASSWORD", c.Redis.Stock)
	s.Archive = r.read("archive.password_file", "WEIR_ARCHIVE_PASSWORD", c.Archive.PasswordFile, 1)
	s.SharedPassword = s.StockPassword
	if c.Redis.Shared != nil {
		s.SharedPassword = r.redis("redis.shared", "WEIR_REDIS_SHARED_PASSWORD", *c.Redis.Shared)
	}
	r.admin(c.Admin)
	return *s, r.faults.err()
}

// Masked is one line for each secret: where it comes from and whether it is set.
func (s Secrets) Masked() []string {
	lines := make([]string, len(s.sources))
	for i, x := range s.sources {
		lines[i] = fmt.Sprintf("%s (%s): %s", x.path, x.env, x.secret)
	}
	return lines
}

type secretReader struct {
	Secrets
	env    func(string) string
	needed bool // an upstream other than sample
	faults Faults
}

func (r *secretReader) fault(path, format string, args ...any) {
	r.faults = append(r.faults, Fault{Path: path, Text: fmt.Sprintf(format, args...)})
}

// read takes the secret from the environment, else from the file, else none.
func (r *secretReader) read(path, env, file string, least int) Secret {
	text, from := r.env(env), env
	if text == "" && file != "" {
		from = file
		var err error
		if text, err = r.file(file); err != nil {
			r.fault(path, "(%s) %s; right is a readable file, or %s in the environment", clip(file), err, env)
			r.sources = append(r.sources, source{path, env, Secret{}})
			return Secret{}
		}
	}
	if (text != "" || from == file && file != "") && len(text) < least {
		r.fault(path, "is too short in %s (%d bytes), right is at least %d; make one with: %s", clip(from), len(text), least, howToMake+"secret")
	}
	s := NewSecret(text)
	r.sources = append(r.sources, source{path, env, s})
	return s
}

// file reads a secret and drops one newline at its end.
func (r *secretReader) file(name string) (string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", bare(err))
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("is no regular file")
	}
	if info.Mode().Perm()&0o004 != 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s can be read by every user of this host; make it private with: chmod 600 %s", name, name))
	}
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", bare(err))
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecretBytes+1))
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", bare(err))
	}
	if len(b) > maxSecretBytes {
		return "", fmt.Errorf("is larger than %d bytes", maxSecretBytes)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}

// need reports a missing secret that only the sample shop can do without.
func (r *secretReader) need(path, env string, s Secret, file string) {
	if r.needed && !s.Set() && !r.faults.covers(path) {
		r.fault(path, "is missing and upstream.url is not sample; right is %s in the environment or a file, made with: %s", env, howToMake+file)
	}
}

func (r *secretReader) jwt(j JWTConfig) {
	const path, env = "identity.jwt.secret_file", "WEIR_JWT_SECRET"
	if !j.On() {
		return
	}
	if slices.Contains(j.Algorithms, "HS256") {
		r.JWT = r.read(path, env, j.SecretFile, minSecret)
		if r.needed && !r.JWT.Set() && !r.faults.covers(path) {
			r.fault(path, "is missing and upstream.url is not sample; right is the key that the shop signs its sessions with, as %s or in a file, or identity.jwt.cookie \"\" if it signs none", env)
		}
	}
	for i, name := range j.PublicKeyFiles {
		at := fmt.Sprintf("identity.jwt.public_key_files[%d]", i)
		key, err := readPublicKey(name, j.Algorithms)
		if err != nil {
			r.fault(at, "(%s) %s", clip(name), err)
			continue
		}
		r.JWTKeys = append(r.JWTKeys, key)
	}
}

func (r *secretReader) redis(path, env string, s RedisServer) Secret {
	password := r.read(path+".password_file", env, s.PasswordFile, 1)
	if s.Username != "" && !password.Set() && !r.faults.covers(path+".password_file") {
		r.fault(path+".password_file", "is missing for the user of this Redis (%s), right is a file or %s in the environment", clip(s.Username), env)
	}
	return password
}

func (r *secretReader) admin(a AdminConfig) {
	for i, t := range a.Tokens {
		path := fmt.Sprintf("admin.tokens[%d].token_file", i)
		if t.TokenFile == "" {
			continue // Validate has said so
		}
		r.token(path, t.Name, t.Role, r.readFile(path, t.TokenFile))
	}
	if t := r.read("admin.tokens", "WEIR_ADMIN_TOKEN", "", minToken); t.Set() {
		r.token("admin.tokens", "env", "operator", t)
	}
	if len(a.Tokens) > 0 || len(r.AdminTokens) > 0 {
		return
	}
	const right = "right is WEIR_ADMIN_TOKEN in the environment, or a token_file made with: " + howToMake + "admin.token"
	switch {
	case !loopback(a.Address):
		r.fault("admin.tokens", "is empty and admin.address (%s) can be reached from other hosts; %s", clip(a.Address), right)
	case r.needed:
		r.fault("admin.tokens", "is empty and upstream.url is not sample; %s", right)
	}
}

// readFile reads a token that no variable can override.
func (r *secretReader) readFile(path, file string) Secret {
	none := func(string) string { return "" }
	env := r.env
	r.env = none
	defer func() { r.env = env }()
	return r.read(path, "a file only", file, minToken)
}

func (r *secretReader) token(path, name, role string, t Secret) {
	if !t.Set() {
		return
	}
	if strings.ContainsFunc(t.text, func(c rune) bool { return c <= ' ' || c > unicode.MaxASCII || c == 0x7f }) {
		r.fault(path, "holds spaces, line breaks or letters outside ASCII, right is one line such as: %s", howToMake+"admin.token")
	}
	for _, other := range r.AdminTokens {
		if other.Token == t {
			r.fault(path, "is the same token as that of %s, right is one token for each name", clip(other.Name))
		}
	}
	r.AdminTokens = append(r.AdminTokens, AdminToken{Name: name, Role: role, Token: t})
}
