type Tone = 'good' | 'wait' | 'bad' | 'accent' | 'mute';

const tones: Record<string, Tone> = {
  queued: 'accent',
  sent: 'good',
  delivered: 'good',
  failed: 'bad',
  bounced: 'bad',
  suppressed: 'mute',
  canceled: 'mute',
  deferred: 'wait',
  pending: 'wait',
  verified: 'good',
  succeeded: 'good',
  enabled: 'good',
  disabled: 'bad',
  published: 'good',
  draft: 'mute',
  active: 'good',
  retired: 'mute',
  revoked: 'mute',
  expired: 'mute',
  pass: 'good',
  fail: 'bad',
  bounce: 'bad',
  complaint: 'bad',
  unsubscribe: 'wait',
  complained: 'bad',
  unsubscribed: 'wait',
  delayed: 'wait',
  manual: 'mute',
  suspended: 'bad',
  paused: 'wait',
  held: 'wait',
  scheduled: 'accent',
};

/** A word with a color, which never says more than the word. */
export function Status({ value, tone }: { value: string; tone?: Tone }) {
  return (
    <span className="status" data-tone={tone ?? tones[value] ?? 'mute'}>
      {value}
    </span>
  );
}

export function Tags({ tags }: { tags: string[] }) {
  return tags.map((tag) => (
    <span key={tag}>
      <span className="tag" title={tag}>
        {tag}
      </span>{' '}
    </span>
  ));
}
