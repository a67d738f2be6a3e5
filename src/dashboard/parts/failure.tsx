import { Alert, Button, Skeleton, Stack } from '@mantine/core';
import { Component, type ReactNode } from 'react';
import { Link } from 'wouter';
import { isStatus, isUnshown, wordsOf } from '../api.ts';
import { Empty } from './empty.tsx';
import { PageHead } from './page.tsx';

/**
 * What went wrong in words, and a way to try again.
 *
 * @param props.isBelow what there was before is shown all the same
 */
export function Failure(props: { error: unknown; retry?: (() => void) | undefined; isBelow?: boolean }) {
  const { error, retry, isBelow = false } = props;
  const words = isStatus(error, 404) ? 'It does not exist, or it belongs to another account.' : wordsOf(error);
  return (
    <Alert
      color="red"
      variant="light"
      title={isBelow ? 'What you see below may be out of date' : 'This could not be loaded'}
      role="alert"
      mb={isBelow ? 'sm' : 0}
    >
      {words}
      {retry && (
        <div>
          <Button mt="xs" variant="default" onClick={retry}>
            Try again
          </Button>
        </div>
      )}
    </Alert>
  );
}

/** What is known, or in its place why it is not: while the server is away what there was stays, with what is open in it. */
export function Known(props: {
  data: unknown;
  error: Error | null;
  retry?: (() => void) | undefined;
  children: ReactNode;
}) {
  const { data, error, retry, children } = props;
  const isNothing = isUnshown(data, error);
  return (
    <>
      {error && <Failure error={error} retry={retry} isBelow={!isNothing} />}
      {!isNothing && children}
    </>
  );
}

/**
 * In the place of the page of one thing. What had been shown and is not found any more was removed meanwhile.
 *
 * @param props.kind what it is one of; its name, once that was known
 */
export function Unshown(props: {
  kind: string;
  name: string | undefined;
  back: { href: string; name: string };
  error: unknown;
  retry: () => void;
}) {
  const { kind, name, back, error, retry } = props;
  return (
    <>
      <PageHead title={name ?? kind} back={back} />
      {name !== undefined && isStatus(error, 404) ? (
        <div className="table-box" role="alert">
          <Empty title={`This ${kind.toLowerCase()} no longer exists`} words="It was removed.">
            <Link href={back.href} className="link">
              All {back.name.toLowerCase()}
            </Link>
          </Empty>
        </div>
      ) : (
        <Failure error={error} retry={retry} />
      )}
    </>
  );
}

/** Bars where a page will be. */
export function Waiting({ bars = 5 }: { bars?: number }) {
  return (
    <Stack gap="sm" role="status" aria-busy="true" aria-label="Loading">
      {Array.from({ length: bars }, (_, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: they are all the same
        <Skeleton key={index} height={index === 0 ? 28 : 20} width={index === 0 ? 220 : `${96 - 7 * (index % 3)}%`} />
      ))}
    </Stack>
  );
}

/** Keeps a mistake of one page to that page. */
export class Boundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state: { error: unknown } = { error: null };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    return (
      <div style={{ padding: 24 }}>
        <Failure error={this.state.error} retry={() => location.reload()} />
      </div>
    );
  }
}
