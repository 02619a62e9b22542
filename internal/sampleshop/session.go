package sampleshop

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// SessionCookie holds the visitor's session: a JWT that weir verifies too.
const SessionCookie = "shop_session"

// Issuer is the iss claim of a session.
const Issuer = "sample-shop"

// sessionTTL is how long a visitor stays signed in.
const sessionTTL = 24 * time.Hour

// NewSession signs user in for ttl from now: an HS256 JWT with sub, iss, iat
// and exp.
func NewSession(key []byte, user string, ttl time.Duration, now time.Time) (string, error) {
	if user == "" || len(key) == 0 {
		return "", errors.New("session: user and key are required")
	}
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{
		Issuer:    Issuer,
		Subject:   user,
		IssuedAt:  jwt.NewNumericDate(now),
		ExpiresAt: jwt.NewNumericDate(now.Add(ttl)),
	})
	text, err := token.SignedString(key)
	if err != nil {
		return "", fmt.Errorf("signing session: %w", err)
	}
	return text, nil
}

// user is who r comes from, "" for a visitor without a valid session.
func (s *Shop) user(r *http.Request) string {
	c, err := r.Cookie(SessionCookie)
	if err != nil {
		return ""
	}
	var claims jwt.RegisteredClaims
	_, err = jwt.ParseWithClaims(c.Value, &claims, func(*jwt.Token) (any, error) { return s.opt.SessionKey, nil },
		jwt.WithValidMethods([]string{"HS256"}), jwt.WithIssuer(Issuer), jwt.WithExpirationRequired(), jwt.WithTimeFunc(s.now))
	if err != nil {
		return ""
	}
	return claims.Subject
}

// welcome signs a visitor without a session in.
func (s *Shop) welcome(w http.ResponseWriter, r *http.Request) error {
	if s.user(r) != "" {
		return nil
	}
	token, err := NewSession(s.opt.SessionKey, "v-"+randomID(), sessionTTL, s.now())
	if err != nil {
		return err
	}
	http.SetCookie(w, &http.Cookie{
		Name: SessionCookie, Value: token, Path: "/", MaxAge: int(sessionTTL / time.Second),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: https(r),
	})
	return nil
}

// signIn gives the visitor a session and sends him on to ?next=, a path of
// this site.
func (s *Shop) signIn(w http.ResponseWriter, r *http.Request) {
	if err := s.welcome(w, r); err != nil {
		s.broken(w, "signing a visitor in", err)
		return
	}
	http.Redirect(w, r, localPath(r.URL.Query().Get("next")), http.StatusSeeOther)
}

// localPath is next if it cannot lead to another site, else the front page.
func localPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(next, "/") ||
		strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") {
		return "/"
	}
	return next
}

// https says whether the visitor's browser speaks TLS, here or at a proxy.
func https(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// randomID is 128 random bits: nobody guesses one.
func randomID() string {
	var b [16]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}
