package gateway

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"weir/blacklist"
)

// courtroom is a judge with its blacklist, on a clock that the test moves.
func courtroom(t *testing.T, cfg JudgeConfig) (*judge, *blacklist.List, *time.Time) {
	t.Helper()
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { rdb.Close() })
	bans, err := blacklist.New(blacklist.Config{Redis: rdb, Now: clock, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := bans.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	return newJudge(cfg, Deps{Bans: bans, Now: clock, Log: slog.New(slog.DiscardHandler)}), bans, &now
}

func TestTheJudgeBansAUserBeforeHisAddress(t *testing.T) {
	j, bans, now := courtroom(t, JudgeConfig{Enabled: true, Window: time.Minute, Offences: 3, Ban: 10 * time.Minute})
	bot := Caller{User: "bot", Addr: netip.MustParseAddr("192.0.2.1")}
	for range 3 {
		j.weigh(context.Background(), Offence{bot, RateLimited})
	}
	entry, banned := bans.Check(blacklist.Query{User: "bot"})
	if !banned || entry.Origin != "judge" || !entry.Until.Equal(now.Add(10*time.Minute)) {
		t.Fatalf("the user is banned for a while: %+v %v", entry, banned)
	}
	if _, banned := bans.CheckAddr(bot.Addr); banned {
		t.Error("his office is not")
	}
	*now = now.Add(11 * time.Minute)
	if _, banned := bans.Check(blacklist.Query{User: "bot"}); banned {
		t.Error("the ban ends by itself")
	}
}

func TestAnAddressTakesTenTimesTheOffences(t *testing.T) {
	j, bans, _ := courtroom(t, JudgeConfig{Enabled: true, Window: time.Minute, Offences: 3, Ban: time.Minute})
	nobody := Caller{Addr: netip.MustParseAddr("192.0.2.1")}
	for i := range 30 {
		if _, banned := bans.CheckAddr(nobody.Addr); banned {
			t.Fatalf("banned after %d offences", i)
		}
		j.weigh(context.Background(), Offence{nobody, BadRequest})
	}
	if _, banned := bans.CheckAddr(nobody.Addr); !banned {
		t.Error("not banned after thirty")
	}
}

func TestOffencesOfAnotherWindowAreForgotten(t *testing.T) {
	j, bans, now := courtroom(t, JudgeConfig{Enabled: true, Window: time.Minute, Offences: 3, Ban: time.Minute})
	for range 5 {
		j.weigh(context.Background(), Offence{Caller{User: "slow"}, CaptchaWrong})
		*now = now.Add(40 * time.Second)
	}
	if _, banned := bans.Check(blacklist.Query{User: "slow"}); banned {
		t.Error("two offences a minute are not three")
	}
}

func TestAFullJudgeIsNeverWaitedFor(t *testing.T) {
	j, _, _ := courtroom(t, JudgeConfig{Enabled: true, Window: time.Minute, Offences: 3, Ban: time.Minute})
	for range offenceQueue + 7 {
		j.tell(Caller{User: "bot"}, RateLimited)
	}
	if got := j.dropped.Load(); got != 7 {
		t.Errorf("%d dropped, want 7", got)
	}
}
