package pages

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"sync"
)

//go:embed assets html
var files embed.FS

// Assets holds style.css, buy.js and their kin, to be served below
// {Prefix}/assets/. The pages link them with ?v= and the start of their hash,
// so an answer may be cached for as long as one likes.
func Assets() fs.FS {
	sub, err := fs.Sub(files, "assets")
	if err != nil { // only for a path that is not valid
		panic(err)
	}
	return sub
}

// AssetETag is the strong ETag of an asset, quotes included; "" when there is
// no such asset.
func AssetETag(name string) string {
	hash := loaded().hashes[name]
	if hash == "" {
		return ""
	}
	return `"` + hash + `"`
}

// content is what is embedded, parsed once; it never changes afterwards.
type content struct {
	hashes    map[string]string // asset name → 16 hex digits of its sha-256
	templates map[string]*template.Template
	err       error
}

var loaded = sync.OnceValue(load)

func templates() (map[string]*template.Template, error) {
	c := loaded()
	return c.templates, c.err
}

func load() content {
	c := content{hashes: make(map[string]string), templates: make(map[string]*template.Template)}
	c.err = fs.WalkDir(Assets(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(Assets(), path)
		if err != nil {
			return fmt.Errorf("reading asset %s: %w", path, err)
		}
		sum := sha256.Sum256(body)
		c.hashes[path] = hex.EncodeToString(sum[:8])
		return nil
	})
	if c.err != nil {
		return c
	}
	for _, name := range []string{"buy", "refusal", "reservation"} {
		t, err := template.New(name).Funcs(funcs(c.hashes)).ParseFS(files, "html/frame.html", "html/"+name+".html")
		if err != nil {
			c.err = fmt.Errorf("reading page %s: %w", name, err)
			return c
		}
		c.templates[name] = t
	}
	return c
}
