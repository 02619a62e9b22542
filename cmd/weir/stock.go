package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"weir/inventory"
	"weir/inventory/archive"
)

// makeStock opens the archive, if there is one, and makes the stock.
func (p *program) makeStock(ctx context.Context) (err error) {
	if err := p.openArchive(ctx); err != nil {
		return err
	}
	c := inventory.Config{
		Redis: p.redis.stock, Memory: p.redis.memory, Replica: p.replica, Log: p.log,
		Share: &inventory.Share{Buffer: p.cfg.Stock.ShareBuffer},
		Wait:  inventory.Wait{Replicas: p.cfg.Stock.WaitReplicas, Timeout: p.cfg.Stock.WaitTimeout},
	}
	if p.archive != nil {
		c.Archive = p.archive
	}
	if !p.redis.memory {
		c.Marks = markFile{path: filepath.Join(p.cfg.Data, "marks.json")}
	}
	if c.Quota, err = p.makeQuota(); err != nil {
		return err
	}
	p.stock, err = inventory.New(c)
	return err
}

const archiveWait = 5 * time.Second

func (p *program) openArchive(ctx context.Context) error {
	if p.cfg.Archive.URL == "" {
		return nil
	}
	dsn, err := archiveDSN(p.cfg.Archive.URL, p.secrets.Archive)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, archiveWait)
	defer cancel()
	db, err := archive.Open(ctx, dsn, archive.WithLog(p.log), archive.WithClock(p.clock.Now))
	if err != nil {
		hint := ""
		if errors.Is(err, archive.ErrLogin) {
			hint = "; right is the user in archive.url and its password in archive.password_file or WEIR_ARCHIVE_PASSWORD"
		}
		return fmt.Errorf("archive.url (%s): %w%s", hidePassword(p.cfg.Archive.URL), err, hint)
	}
	p.archive = db
	return nil
}

// archiveDSN puts the password into the address.
func archiveDSN(address string, password Secret) (string, error) {
	if !password.Set() || strings.HasPrefix(address, "sqlite:") {
		return address, nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("archive.url: %w", err)
	}
	u.User = url.UserPassword(u.User.Username(), string(password.Reveal()))
	return u.String(), nil
}

// oneHost refuses a file as archive where replicas run on several hosts: each
// would keep a part of the proof for itself.
func (p *program) oneHost(ctx context.Context) error {
	if !strings.HasPrefix(p.cfg.Archive.URL, "sqlite:") {
		return nil
	}
	peers, err := p.stock.Replicas(ctx)
	if err != nil {
		return err
	}
	for _, peer := range peers {
		if hostOf(peer) != hostOf(p.replica) {
			return fmt.Errorf("archive.url (%s): a replica runs on another host (%s), right is a PostgreSQL that all share", p.cfg.Archive.URL, hostOf(peer))
		}
	}
	return nil
}

// hostOf is the host in a replica's name, see replicaName.
func hostOf(replica string) string {
	if i := strings.LastIndexByte(replica, '-'); i >= 0 {
		return replica[:i]
	}
	return replica
}

// makeCopier makes what brings sales to the archive.
func (p *program) makeCopier(context.Context) (err error) {
	if p.archive == nil {
		return nil
	}
	p.copier, err = archive.NewCopier(archive.CopierConfig{
		Source: p.stock, Archive: p.archive, Leases: p.stock, Log: p.log,
		Interval: p.cfg.Archive.Interval, Horizon: p.cfg.Archive.Keep, Now: p.clock.Now,
	})
	if err == nil {
		p.registry.MustRegister(copyWatcher{p.copier})
	}
	return err
}

// markFile keeps the stock's marks in the data folder.
type markFile struct{ path string }

// Load implements inventory.Marks. A missing file holds none.
func (f markFile) Load() (map[string]inventory.Mark, error) {
	text, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all map[string]inventory.Mark
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("%s: %w; without it a Redis that forgot sales is not noticed: restore it, or remove it if no sale runs", f.path, err)
	}
	return all, nil
}

// Save implements inventory.Marks. Replicas may share the folder: one
// writes at a time, a file of its own that it moves into place, and what another one knows of a sale
// stays if it is further on.
func (f markFile) Save(keep map[string]inventory.Mark, drop ...string) error {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(f.path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // which unlocks
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("locking %s.lock: %w", f.path, err)
	}
	before, err := f.Load()
	if err != nil {
		return err
	}
	all := merged(before, keep)
	for _, sale := range drop {
		delete(all, sale)
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(f.path), "marks-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if _, err = tmp.Write(text); err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), f.path)
}

// merged takes of each sale the later mark.
func merged(before, now map[string]inventory.Mark) map[string]inventory.Mark {
	all := maps.Clone(before)
	if all == nil {
		all = make(map[string]inventory.Mark, len(now))
	}
	for sale, m := range now {
		if old, ok := all[sale]; ok {
			m = m.Merge(old)
		}
		all[sale] = m
	}
	return all
}
