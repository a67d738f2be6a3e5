import { ActionIcon, Tooltip } from '@mantine/core';
import { useEffect, useState } from 'react';
import { copyText } from '../browser/clipboard.ts';
import { Icon } from '../look/icons.tsx';
import { tellFailure } from './action.tsx';

const shownMs = 1_500;

/** @param what names the text, for screen readers */
export function Copy({ text, what }: { text: string; what: string }) {
  const [copied, setCopied] = useState(false);
  const copy = () => copyText(text).then(() => setCopied(true), tellFailure);
  useEffect(() => {
    if (!copied) return;
    const shown = setTimeout(() => setCopied(false), shownMs);
    return () => clearTimeout(shown);
  }, [copied]);
  return (
    <Tooltip label={copied ? 'Copied' : `Copy ${what}`}>
      <ActionIcon size="sm" aria-label={`Copy ${what}`} onClick={copy}>
        <Icon name={copied ? 'check' : 'copy'} size={14} />
      </ActionIcon>
    </Tooltip>
  );
}

/** A command to copy and paste. */
export function Command({ text, what = 'the command' }: { text: string; what?: string }) {
  return (
    <div className="command">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached with the keyboard */}
      <pre tabIndex={0}>{text}</pre>
      <div className="copy">
        <Copy text={text} what={what} />
      </div>
    </div>
  );
}
